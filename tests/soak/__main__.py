"""Lives as many random lives as fit in a time, and says what was lost; exits 1 if anything was.

    python -m tests.soak --hours 2 [--workers 2] [--out FOLDER]
    python -m tests.soak --summary

Each batch adds a line to `figures.jsonl` in the folder, so that several soaks add up; `--summary`
prints their sums per commit. A life that goes wrong is written there too. SIGTERM ends it early,
with all that was done until then.
"""

import argparse
import sys
from pathlib import Path

from tests.soak import figures
from tests.soak.workers import soak

OUT = figures.ROOT / "build" / "soak"


def main(words: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser("soak", description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--summary", action="store_true", help="only print what there is")
    given = parser.parse_args(words)
    lines = []
    for line in [] if given.summary else soak(given.hours * 3600, given.workers, given.out):
        figures.append(given.out, line)
        lines.append(line)
    sums = figures.sums(figures.read(given.out) if given.summary else lines)
    print(figures.table(sums))
    return int(any(line.broken for line in sums))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
