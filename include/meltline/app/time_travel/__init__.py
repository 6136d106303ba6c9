"""Time travel: reads a table at a point of its past."""
