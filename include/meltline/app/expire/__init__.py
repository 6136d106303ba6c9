"""Planning and committing expirations."""
