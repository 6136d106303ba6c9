"""Archiving snapshots to cold, verifying, mending and replicating copies."""
