"""Serves graphs over HTTP."""
