"""Commits expirations that passed their gate: metadata only, one compare-and-swap per table."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("expire")
