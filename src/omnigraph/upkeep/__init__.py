"""Work that keeps a graph fast and never changes what it says."""
