"""Drop chunks that passed: one metadata-only commit per table."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("drop_chunks")
