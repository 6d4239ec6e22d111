"""Merging: the truth table, operation pairs, random merges against an oracle, resolutions, laws."""
