"""Cold's content of chunks: files with late rows, row counts, and checksums."""
