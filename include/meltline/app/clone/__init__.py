"""Zero-copy clones, and shares that other tools read."""
