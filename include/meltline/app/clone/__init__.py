"""Clones and shares."""
