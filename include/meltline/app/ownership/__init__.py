"""Ownership of paths: files that another table, catalog, format or installation may own."""
