"""Tables and namespaces that were dropped, and their history."""
