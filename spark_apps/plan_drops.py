"""Plans which chunks are old enough to leave hot, and lists their files."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("plan_drops")
