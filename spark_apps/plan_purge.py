"""Plan the deletion of files past their failsafe that nothing refers to."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("plan_purge")
