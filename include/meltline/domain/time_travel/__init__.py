"""Time travel: points of a table's past, and the snapshots that they resolve to."""
