"""A second, naive reading of the query language, to compare the engine with."""
