"""Loading files and DataFrames on Spark: split, stage on the executors, check, commit once."""
