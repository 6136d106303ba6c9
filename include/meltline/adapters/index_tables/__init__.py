"""The tables of the file index: their schema, rows, scans and caches."""
