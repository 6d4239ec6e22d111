"""Tests of verify: sound graphs, and every kind of damage that it must find."""
