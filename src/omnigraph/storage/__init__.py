"""Tables, versions and commits on a store. Knows Lance and object stores; knows nothing of nodes, edges or queries.

Read `graph_store.py` for what a graph's storage offers, `commit/protocol.py` for how a write becomes visible, and
`recovery/sweep.py` for what happens after a crash.
"""
