"""Judge this run's plans with Great Expectations, over evidence read afresh."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("gate")
