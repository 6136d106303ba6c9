"""Read-only views of chunks: status, explanations of files, and all rows of hot and cold."""
