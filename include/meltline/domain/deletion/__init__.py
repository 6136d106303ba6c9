"""Plans to delete files, their gates, limits and batches, and tombstoned objects."""
