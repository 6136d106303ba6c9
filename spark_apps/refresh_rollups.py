"""Refreshes rollups: aggregates buckets again if their rows have changed."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("refresh_rollups")
