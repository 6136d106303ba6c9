"""Drops chunks whose plans passed their gate: one metadata-only commit per table."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("drop_chunks")
