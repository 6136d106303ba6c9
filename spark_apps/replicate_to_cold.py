"""Bring synced tables in cold up to hot's main line."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("replicate_to_cold")
