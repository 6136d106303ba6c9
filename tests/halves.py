"""Runs every test that needs no stack, in two processes side by side; one shows its own last.

    python -m tests.halves [OPTIONS OF PYTEST]

Each half has one Spark session, and waits often: for Airflow, for a server, for a disk. Exits with
0 where both did.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

TESTS = Path(__file__).parent
OTHER_HALF = ("contract", "dags")
"""Folders whose tests take about as long as all others."""
ON_STACKS = "stacks"
"""The folder of the tests that need servers and clusters of their own: `make stacks`."""


def halves() -> tuple[list[Path], list[Path]]:
    """All folders with tests that run here, each once."""
    folders = sorted({path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")})
    folders = [name for name in folders if name != ON_STACKS]
    other = [TESTS / name for name in folders if name in OTHER_HALF]
    return [TESTS / name for name in folders if name not in OTHER_HALF], other


def main(options: list[str]) -> int:
    """Returns the exit code."""
    shown, other = halves()
    pytest = [sys.executable, "-m", "pytest", *options]
    with TemporaryFile() as output:
        beside = subprocess.Popen([*pytest, *other], stdout=output, stderr=subprocess.STDOUT)
        try:
            code = subprocess.run([*pytest, *shown], check=False).returncode
            code = beside.wait() or code
        finally:
            beside.kill()  # where this one was interrupted
        output.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(output.read())
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
