"""Lance tables: open them at a version, read, search and scan their rows, stage changes of them."""
