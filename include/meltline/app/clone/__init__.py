"""Zero-copy clones, and shares."""
