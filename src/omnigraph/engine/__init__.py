"""Runs a logical plan on one snapshot, in this process: Arrow and NumPy, no Python object per row.

`run.py` is the way in. `view.py` is the graph as arrays, `steps.py` runs the pipeline, `along_tree.py` aggregates
without listing bindings, `finish.py` groups, orders and projects.
"""
