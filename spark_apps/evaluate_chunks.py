"""Stamp each chunk with its last write, and flag those that are proved to be in cold."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("evaluate_chunks")
