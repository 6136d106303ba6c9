"""Purge: plans deletes, proves the files unreferenced once more, and deletes them."""
