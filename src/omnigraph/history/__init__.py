"""The past and the side lines of a graph: branches, commits, and snapshots of any moment."""
