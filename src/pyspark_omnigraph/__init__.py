"""Where Spark looks for the format ``omnigraph``: it imports every installed package called ``pyspark_…``."""

from omnigraph.spark.data_source import DefaultSource

__all__ = ["DefaultSource"]
