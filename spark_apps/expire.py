"""Commit what passed: metadata only, one compare-and-set per table."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("expire")
