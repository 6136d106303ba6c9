"""Drops: drop, undrop, recover and rename, external drops, and the end of dropped tables."""
