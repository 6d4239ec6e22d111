"""`.gq` text → syntax tree. Start at `parse.py`; the nodes are in `tree.py`. Knows no schema."""
