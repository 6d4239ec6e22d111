"""Several processes or threads on one graph at once."""
