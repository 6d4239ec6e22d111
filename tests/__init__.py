"""All tests. A package, so that two areas may each have a file of the same name."""
