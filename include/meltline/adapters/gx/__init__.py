"""Great Expectations: evaluates plans by their gate facts, and writes Data Docs pages."""
