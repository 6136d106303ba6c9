"""Rollups: declared, refreshed bucket by bucket, and what of a table waits for them."""
