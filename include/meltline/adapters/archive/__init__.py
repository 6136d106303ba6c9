"""The archive: copies, rewrites, compares and retrieves the files of archived snapshots."""
