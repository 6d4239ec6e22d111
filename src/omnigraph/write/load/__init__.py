"""Files and tables → rows of types, one commit.

The row path (`line_blocks.py`, `parse_lines.py`, `tabular.py`, `rules.py`) is made of pure functions from bytes or
Arrow to Arrow, so that any engine can run them. `commit_load.py` puts them together in this process.
"""
