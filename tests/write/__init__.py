"""Tests of rows in, one commit out."""
