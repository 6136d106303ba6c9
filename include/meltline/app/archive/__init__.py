"""The archive: copies snapshots to cold, verifies and repairs the copies, and replicates them."""
