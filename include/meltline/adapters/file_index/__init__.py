"""The file index: read and written on Spark, and read without it."""
