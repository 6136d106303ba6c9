"""Reports the results of the run, per table."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("report_chunks")
