"""Tags, branches and differences."""
