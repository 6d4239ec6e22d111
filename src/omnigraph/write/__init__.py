"""Rows in, one commit out: the rules about rows, the rules about sets of rows, and staging.

Mutations, loads and merges all end here. Read `change.py` for what a change is and `commit.py` for the way through.
"""
