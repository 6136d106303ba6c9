"""Ownership of paths: which files another table, catalog, format or installation may own."""
