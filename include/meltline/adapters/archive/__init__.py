"""The archive: copying, rewriting, comparing and retrieving."""
