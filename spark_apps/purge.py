"""Deletes files whose plans passed, batch by batch, each proved unreachable once more."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("purge")
