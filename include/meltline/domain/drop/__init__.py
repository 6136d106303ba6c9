"""Dropped tables and namespaces, and the listing of their history."""
