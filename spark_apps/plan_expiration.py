"""Decide which snapshots are kept, and store a plan of what leaves."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("plan_expiration")
