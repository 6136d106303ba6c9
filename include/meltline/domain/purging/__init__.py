"""Purging as a whole, over all tables of the lake."""
