"""Restores archived snapshots as hot tables, and chooses the tier that a past point is read from."""
