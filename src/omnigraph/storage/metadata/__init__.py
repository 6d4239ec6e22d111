"""What a graph consists of: the manifest, its snapshots, the commits, the branches, the schema files."""
