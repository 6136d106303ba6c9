"""Runs tests in two processes side by side; one shows its own last. Exits with 0 where both did.

    python -m tests.halves [OPTIONS OF PYTEST]           every test that needs no stack
    python -m tests.halves stacks [OPTIONS OF PYTEST]    those on stacks that CI runs

Each half has one Spark session, and waits often: for Airflow, for a server, for a disk.
"""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

TESTS = Path(__file__).parent
OTHER_HALF = ("contract", "dags")
"""Folders whose tests take about as long as all others."""
ON_STACKS = "stacks"
"""The folder of the tests that need servers and clusters of their own: `make stacks`."""
STACKS = (("rest", "hive", "glue"), ("postgres", "s3", "cluster", "package"))
"""Of these folders, what CI runs: one half beside the other."""
BY_HAND = (
    "airflow",
    "azure",
    "gcs",
    "cluster/test_submitted_steps.py",
    "cluster/test_worker_kills.py",
    "package/test_extras.py",
    "postgres/test_database_troubles.py",
)
"""The rest, which takes too long, or whose servers no script of ours can have everywhere."""


def halves() -> tuple[list[Path], list[Path]]:
    """All folders with tests that need no stack, each once."""
    folders = sorted({path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")})
    folders = [name for name in folders if name != ON_STACKS]
    other = [TESTS / name for name in folders if name in OTHER_HALF]
    return [TESTS / name for name in folders if name not in OTHER_HALF], other


def stacks() -> tuple[list[list[Path]], list[list[Path]]]:
    """The folders of the stacks that CI runs, each in a process of its own.

    A JVM that has had a local session does not join a cluster.
    """
    shown, other = ([[TESTS / ON_STACKS / name] for name in half] for half in STACKS)
    return shown, other


def side_by_side(
    shown: Sequence[Sequence[Path]], other: Sequence[Sequence[Path]], options: Sequence[str]
) -> int:
    """Runs the tests of both halves; returns the exit code.

    Args:
        shown: Folders by the process that runs them, one process after the other.
        other: The same, beside them.
        options: Of pytest.
    """
    pytest = [sys.executable, "-m", "pytest", *options]
    with TemporaryFile() as output, ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(_one_after_the_other, pytest, other, output)
        codes = [*_one_after_the_other(pytest, shown), *waiting.result()]
        output.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(output.read())
    return max(codes)


def _one_after_the_other(
    pytest: Sequence[str], groups: Sequence[Sequence[Path]], output: IO[bytes] | None = None
) -> list[int]:
    both = None if output is None else subprocess.STDOUT
    return [
        subprocess.run([*pytest, *group], stdout=output, stderr=both, check=False).returncode
        for group in groups
    ]


def main(words: Sequence[str]) -> int:
    """Returns the exit code."""
    if [*words[:1]] == [ON_STACKS]:
        left_out = [f"--ignore={TESTS / ON_STACKS / name}" for name in BY_HAND]
        return side_by_side(*stacks(), [*left_out, *words[1:]])
    shown, other = halves()
    return side_by_side([shown], [other], words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
