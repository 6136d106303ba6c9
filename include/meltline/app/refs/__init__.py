"""Tags, branches, and differences between snapshots."""
