"""Listings held against the file index."""
