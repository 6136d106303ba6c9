"""The cold tier: copies, their proofs, cold tables' metadata, and pruning."""
