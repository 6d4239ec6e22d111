"""Tests of commits, branches and time travel."""
