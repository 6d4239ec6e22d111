"""`.gq` text → syntax tree. Start at `query_parser.py`; the nodes are in `tree.py`. Knows no schema."""
