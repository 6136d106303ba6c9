"""Dropping, undropping, recovering, and finalizing drops."""
