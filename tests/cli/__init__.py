"""The command line through the real executable, and its parts."""
