"""Proofs from the files alone."""
