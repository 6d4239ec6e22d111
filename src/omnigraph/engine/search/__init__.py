"""Searching texts and vectors of one table: indexes in memory, by row position, derived from commit to commit."""
