"""Decides which snapshots are retained, and stores a plan to expire the others."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("plan_expiration")
