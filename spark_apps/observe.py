"""List every catalog, load one metadata object per table, ingest what is new."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("observe")
