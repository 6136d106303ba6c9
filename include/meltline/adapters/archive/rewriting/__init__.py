"""Manifests of cold: those of hot with other paths."""
