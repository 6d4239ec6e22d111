"""Files and objects below one root: where they are, how they are written, locked and read, and what can go wrong."""
