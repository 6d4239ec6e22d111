"""Writes of the query language as text fixtures: what they do to a graph."""
