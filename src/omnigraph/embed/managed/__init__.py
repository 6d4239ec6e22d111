"""The vectors of a graph that follow their texts: which rows need one, and the run that makes them.

`ledger.py` remembers which vector was made of which text, `row_states.py` derives from it what a row needs, and
`embed_graph.py` does the work.
"""
