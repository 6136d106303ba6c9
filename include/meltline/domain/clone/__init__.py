"""Clones and shares: tables that share files with their source."""
