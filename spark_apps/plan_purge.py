"""Plans the deletion of unreferenced files past their failsafe."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("plan_purge")
