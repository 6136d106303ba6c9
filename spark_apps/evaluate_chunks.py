"""Records each chunk's last write, and flags the chunks that are proved to be in cold."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("evaluate_chunks")
