"""Expirations: plans them, commits them, and records which files depart."""
