"""The file index on Spark, and reading it without."""
