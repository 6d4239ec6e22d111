"""The query language as text fixtures."""
