"""Clones and shares: tables that share files."""
