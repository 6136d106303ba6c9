"""Chunks: replication to cold, flags, gated drops, rollups, and rejection of late rows."""
