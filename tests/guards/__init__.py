"""Tests that read the source instead of running it."""
