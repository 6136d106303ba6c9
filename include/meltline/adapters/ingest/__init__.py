"""Ingestion: reads manifests into the file index, on Spark or in this process."""
