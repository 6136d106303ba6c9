"""Reading manifests into the file index, on Spark."""
