"""Runs a logical plan on one snapshot, in this process: Arrow and NumPy, no Python object per row.

`query_runner.py` is the way in. `graph_view.py` is the graph as arrays, `operators.py` runs the pipeline,
`factorized_aggregation.py` aggregates without listing bindings, `result_table.py` projects, `arranged_result.py` groups
and orders.
"""
