"""Commands for time travel and SQL."""
