"""Benchmarks: Meltline beside Iceberg's own procedures, on the same data, in one Spark session."""
