"""Rollups: declaring, refreshing bucket by bucket, and the chunks that wait for them."""
