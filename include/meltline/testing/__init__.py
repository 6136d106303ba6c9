"""The ports in memory: for tests and dry runs."""
