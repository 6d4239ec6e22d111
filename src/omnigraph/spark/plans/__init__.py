"""The engine's logical plan as DataFrames: the same steps and the same meaning, run by Spark."""
