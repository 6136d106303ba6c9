"""Gate suites: the conditions for a destructive step, as plain data (PX-1 to PX-5)."""
