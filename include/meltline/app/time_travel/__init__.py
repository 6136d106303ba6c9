"""Reading the past."""
