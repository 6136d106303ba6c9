"""Chunks: copied to cold, flagged, dropped behind a gate, and guarded against late rows."""
