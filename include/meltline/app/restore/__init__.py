"""Restores archived snapshots as hot tables, and chooses the tier that answers for a past point."""
