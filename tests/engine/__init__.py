"""The engine that answers queries."""
