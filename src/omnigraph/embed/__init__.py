"""Texts → vectors: the providers, texts in queries, files, and the vectors of a graph that follow their texts.

A write never comes here and never waits for a provider. Neither a key nor a text gets into a log or an error. Read
`embedder.py` for a call to a provider, `managed/embed_graph.py` for the vectors of a graph.
"""
