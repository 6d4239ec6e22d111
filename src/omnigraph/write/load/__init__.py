"""Files and tables → rows of types, one commit.

The row path (`blocks.py`, `parse.py`, `tabular.py`, `rules.py`) is made of pure functions from bytes or Arrow to Arrow,
so that any engine can run them. `load.py` puts them together in this process.
"""
