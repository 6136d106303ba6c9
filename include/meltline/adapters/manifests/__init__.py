"""Readers of manifests and of their Avro."""
