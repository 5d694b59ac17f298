"""Execution on Spark: the only rooms that import pyspark."""
