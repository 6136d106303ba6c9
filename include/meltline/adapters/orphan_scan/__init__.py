"""Scans for orphans: store listings compared with the file index on executors."""
