"""Tests of graphs written by other software and older layouts."""
