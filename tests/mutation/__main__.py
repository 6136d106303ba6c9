"""Breaks a copy of the package in one way after another, and shows which test notices.

    python -m tests.mutation [WORDS OF A NAME]

The working tree is not touched. `MELTLINE_TIER=test` asks only the tests of that tier. Exits 1
when a mutation survives, 2 when one no longer fits.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.mutation.mutation import Mutation
from tests.mutation.mutations import MUTATIONS
from tests.tiers.declared import chosen_tier

ROOT = Path(__file__).parents[2]
COPIED = ("include", "tests")
"""The folders in which a mutation may lie."""


def source_of(mutation: Mutation, root: Path) -> Path:
    """The file that it breaks, in a checkout or a copy."""
    is_double = mutation.file.startswith("tests/")
    return root / mutation.file if is_double else root / "include/meltline" / mutation.file


def fits(mutation: Mutation) -> bool:
    """Whether the text to replace stands in its file exactly once."""
    source = source_of(mutation, ROOT)
    return source.is_file() and source.read_text("utf-8").count(mutation.old) == 1


def broken_checkout(mutation: Mutation, folder: Path) -> dict[str, str]:
    """Makes a checkout with the mutation in it, and returns the environment that imports from it.

    What no mutation changes is linked.
    """
    for path in ROOT.iterdir():
        if path.name in COPIED:
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (folder / path.name).symlink_to(path)
    source = source_of(mutation, folder)
    source.write_text(source.read_text("utf-8").replace(mutation.old, mutation.new), "utf-8")
    return {"PYTHONPATH": os.pathsep.join((str(folder / "include"), str(folder)))}


def caught_by(mutation: Mutation, folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The first test that fails on a broken copy of the package; empty when none does."""
    imports = broken_checkout(mutation, folder)
    tests = [test for test in mutation.tests if (ROOT / test.partition("::")[0]).is_file()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    run = subprocess.run(
        [*command, "-o", "pythonpath="],
        cwd=folder, env={**environment, **imports}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    is_left_out = run.returncode == pytest.ExitCode.NO_TESTS_COLLECTED and chosen_tier(environment)
    if run.returncode == 0 or is_left_out:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    if failed is None or run.returncode != 1:
        raise SystemExit(
            f"{mutation.name}: the tests did not run:\n{run.stdout[-2000:]}{run.stderr}"
        )
    return failed.group(1)


def _caught(mutation: Mutation) -> str:
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        return caught_by(mutation, Path(folder))


def main(words: list[str]) -> int:
    """Runs all mutations, or those whose names hold all the words."""
    chosen = [one for one in MUTATIONS if all(word in one.name for word in words)]
    if unfit := [one.name for one in chosen if not fits(one)]:
        print("\n".join(f"no longer fits: {name}" for name in unfit))
        return 2
    survived = 0
    with ThreadPoolExecutor(os.cpu_count()) as side_by_side:
        for mutation, test in zip(chosen, side_by_side.map(_caught, chosen), strict=True):
            survived += not test
            print(f"{mutation.name:<60} {test or 'SURVIVED'}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
