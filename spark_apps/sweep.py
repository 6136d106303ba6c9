"""List the store, and let what no commit has named begin to wait in failsafe."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("sweep")
