"""Copies the snapshots that the policies archive to cold, before they may expire."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("hand_off_to_cold")
