"""Who may do what to a graph: a YAML file → rules → Cedar → decisions; and the record of what was decided and written.

Knows nothing of storage. `graph/guard.py` holds an open graph to a policy.
"""
