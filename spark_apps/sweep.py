"""Lists the store, and moves orphans, which no commit has referenced, to failsafe."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("sweep")
