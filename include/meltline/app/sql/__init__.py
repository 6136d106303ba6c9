"""Statements: what they do, and what they answer."""
