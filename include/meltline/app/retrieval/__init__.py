"""Bringing archived history back."""
