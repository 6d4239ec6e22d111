"""Merging one branch into another: base, tables, rows, rules, one commit with two parents.

Read `merge.py` for the verb, `rows.py` for what happens to a row, `validate.py` for what the result must satisfy.
"""
