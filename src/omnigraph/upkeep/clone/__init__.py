"""Whole graphs: clone them to another place, keep backups of them, and put a moved one in order.

`copy_graph.py` does the work of the first two: which states fit together is decided in `cut.py`, which files they have
and when each comes in `copy_plan.py`. `relocate_graph.py` changes addresses in place.
"""
