"""Tests of the files of a graph and the protocol that moves them."""
