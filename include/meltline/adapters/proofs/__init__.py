"""Proofs for gates: reads of manifests from the files alone, and their cache."""
