"""Aggregate anew the buckets of rollups whose rows have changed."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("refresh_rollups")
