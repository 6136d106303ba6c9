"""Evaluates this run's plans with Great Expectations, over facts that are read again."""

from meltline.cli.run.step import main

if __name__ == "__main__":
    main("gate")
