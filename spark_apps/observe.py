"""Lists every catalog, loads one metadata object per table, and ingests new snapshots."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("observe")
