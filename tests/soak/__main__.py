"""Random lives and killed processes for as long as told; exits 1 if a file was lost by any.

    python -m tests.soak --hours 2 [--lives 1] [--chunks 1] [--kills 1] [--out FOLDER]
    python -m tests.soak --summary

Each batch adds a line to `figures.jsonl` in the folder, so that several soaks add up; `--summary`
prints their sums per commit. What goes wrong stays there too: a life's recording, a history's
files. SIGTERM ends it early, with all that was done until then.
"""

import argparse
import sys
from pathlib import Path

from tests.soak import figures
from tests.soak.workers import SOURCES, soak

OUT = figures.ROOT / "build" / "soak"


def main(words: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser("soak", description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=0.1)
    parser.add_argument("--lives", type=int, default=1, help="workers for lives in memory")
    parser.add_argument("--chunks", type=int, default=1, help="workers for lives of chunks")
    parser.add_argument("--kills", type=int, default=1, help="workers for real files and processes")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--summary", action="store_true", help="only print what there is")
    given = parser.parse_args(words)
    lines, workers = [], {s: getattr(given, s) for s in SOURCES}
    for line in [] if given.summary else soak(given.hours * 3600, workers, given.out):
        figures.append(given.out, line)
        lines.append(line)
    sums = figures.sums(figures.read(given.out) if given.summary else lines)
    print(figures.table(sums))
    return int(any(line.broken for line in sums))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
