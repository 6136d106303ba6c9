"""The cold tier: copies, their proofs, their metadata and what leaves it."""
