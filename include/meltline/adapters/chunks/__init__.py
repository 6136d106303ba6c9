"""Chunks through Spark and PyIceberg: read, copied, dropped, and guarded against late rows."""
