"""Record today's storage by stage."""

from meltline.cli.step import main

if __name__ == "__main__":
    main("report")
