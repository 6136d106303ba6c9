"""Copy to cold what the policies want there, before it may expire."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("hand_off_to_cold")
