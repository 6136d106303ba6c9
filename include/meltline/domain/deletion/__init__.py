"""Plans to delete, their gates, limits and batches, and what departed."""
