"""Replicates synced tables to cold, up to the head of main in hot."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("replicate_to_cold")
