"""Searching texts and vectors."""
