"""SQL statements: their execution and their results."""
