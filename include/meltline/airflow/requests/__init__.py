"""Reads a DAG run's request: its form, its logical date, its arguments, its configuration."""
