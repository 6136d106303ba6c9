"""Runs one tier of tests, and all before it, on every core.

    python -m tests.tiers quick|test|all|nightly [--record] [OPTIONS OF PYTEST]

`--record` stores what a run of `all` or `nightly` measured in `durations.json`: a smaller tier
leaves out cases of the same files. Exits with pytest's highest exit code, or 2 for wrong arguments.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.seeds import DRAWN_VARIABLE, new_seed
from tests.tiers.declared import TIER_VARIABLE, Tier, tier_of_file
from tests.tiers.durations import Recorder, store

TESTS = Path(__file__).resolve().parents[1]
STACKS = "stacks"
"""Tests of servers and clusters. Each folder has a process of its own: a JVM that has had a local
session joins no cluster."""


@dataclass(frozen=True)
class PytestRun:
    """One pytest process, or one with a worker for each core.

    Attributes:
        paths: The folders that it collects.
        workers: Number of xdist workers; 0 for a process without any.
    """

    paths: tuple[Path, ...]
    workers: int

    def command(self, options: Sequence[str]) -> list[str]:
        spread = ["-n", str(self.workers), "--dist", "loadgroup", "--no-loadscope-reorder"]
        return [
            *(sys.executable, "-m", "pytest"),
            *(spread if self.workers else ()),
            *options,
            *map(str, self.paths),
        ]


def workers() -> int:
    """Returns the number of xdist workers. Two at least: cases with Spark or Airflow wait often."""
    return max(2, os.cpu_count() or 2)


def folders_of(tier: Tier) -> list[str]:
    """Returns the folders below `tests/` that hold a test file of this tier or an earlier one."""
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    chosen = [file for file in files if tier_of_file(file.as_posix()) <= tier]
    return sorted({"/".join(file.parts[: 2 if file.parts[0] == STACKS else 1]) for file in chosen})


def processes(tier: Tier) -> Iterator[PytestRun]:
    """Yields the pytest processes of a tier: first one with workers, then each stack."""
    folders = folders_of(tier)
    yield PytestRun(tuple(TESTS / name for name in folders if not is_stack(name)), workers())
    for name in filter(is_stack, folders):
        yield PytestRun((TESTS / name,), 0)


def is_stack(folder: str) -> bool:
    return folder.startswith(f"{STACKS}/")


def run(tier: Tier, options: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs a tier. Stacks run two at a time, and each prints its output when it ends."""

    def finished(stack: PytestRun) -> subprocess.CompletedProcess[bytes]:
        command = stack.command(options)
        both = subprocess.STDOUT
        return subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=both, check=False
        )

    main, *stacks = processes(tier)
    codes = [subprocess.run(main.command(options), env=environment, check=False).returncode]
    with ThreadPoolExecutor(2) as side_by_side:
        for done in side_by_side.map(finished, stacks):
            sys.stdout.buffer.write(done.stdout)
            sys.stdout.flush()
            codes.append(done.returncode)
    return max(codes)


def main(words: Sequence[str]) -> int:
    """Returns the exit code."""
    tier, options = Tier[words[0].upper()], [word for word in words[1:] if word != "--record"]
    environment = os.environ | {TIER_VARIABLE: words[0], DRAWN_VARIABLE: str(new_seed())}
    # Each of hundreds of processes would compile the same files anew: 11 s of 20 s to collect.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if "--record" not in words:
        return run(tier, options, environment)
    if tier < Tier.ALL:
        print(f"--record needs all or nightly: {words[0]} runs only a part of some files")
        return 2
    with TemporaryDirectory(prefix="durations-") as folder:
        code = run(tier, options, environment | {Recorder.VARIABLE: folder})
        store(Path(folder))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
