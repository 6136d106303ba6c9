"""Ways in which chunks and rollups could be wrong."""
