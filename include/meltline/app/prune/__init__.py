"""Giving archived history up."""
