"""What cold has of chunks: the files with late rows, and rows counted."""
