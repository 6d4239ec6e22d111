"""Tests of the schema room that are not fixtures of the language."""
