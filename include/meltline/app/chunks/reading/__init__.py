"""What only reads chunks: how they stand, why a file is there, and all rows of hot and cold."""
