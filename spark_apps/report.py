"""Records today's storage by stage."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("report")
