"""Restores archived snapshots as hot tables, and chooses the tier a past point is read from."""
