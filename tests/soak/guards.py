"""Counts the random lives that it takes until one finds a guard that was removed.

    python -m tests.soak.guards [WORDS OF A NAME] [--hunts 5] [--most 2000]

Each hunt lives new lives on a broken copy of the package until one of them fails. Exits 1 when the
median hunt of a guard needs more lives than `--most`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.lives.copied_installations import CopiedInstallations
from tests.lives.recorded import live
from tests.mutation.__main__ import ROOT, broken_copy
from tests.mutation.mutation import Mutation
from tests.mutation.mutations import MUTATIONS
from tests.unit.lives.test_random_lifecycles import RandomLifecycles, StrangeLifecycles

MOVES = 30
KINDS: Mapping[str, type[RandomLifecycles]] = {
    kind.__name__: kind for kind in (StrangeLifecycles, CopiedInstallations)
}
GUARDS: Mapping[str, str] = {
    "a table whose owner forbids deletions is managed": "StrangeLifecycles",
    "gc.enabled=false is always Meltline's own": "StrangeLifecycles",
    "the owner's word to Meltline alone does not count": "StrangeLifecycles",
    "what waits of a table stays due when its owner forbids deletions": "StrangeLifecycles",
    "a metadata file of another table is an orphan like any other": "StrangeLifecycles",
    "any table's UUID is known in any folder": "StrangeLifecycles",
    "the log of another format stops no sweep": "StrangeLifecycles",
    "files of Paimon and Lance stop no sweep": "StrangeLifecycles",
    "a purge asks nobody who else may own what a commit named": "StrangeLifecycles",
    "an unknown mark of a storage root counts as ours": "CopiedInstallations",
    "a run that destroys leaves no mark in the storage roots": "CopiedInstallations",
}
"""Guards against owners that Meltline does not see, each with the lives that are to find it."""


def lives_until_one_fails(kind: type[RandomLifecycles], begin: int, most: int) -> int:
    """Returns how many lives it took; `most` + 1 where none has failed."""
    ended = 0

    def count(life: object) -> None:
        nonlocal ended
        ended += 1

    try:
        live(kind, lives=most, moves=MOVES, begin=begin, failed=None, after_each=count)
    except Exception:
        return max(1, ended)
    return most + 1


def hunt(guard: Mutation, begin: int, most: int) -> int:
    """The same in a process of its own, on a package without the guard."""
    with tempfile.TemporaryDirectory(prefix="hunt-") as folder:
        paths = os.pathsep.join((str(broken_copy(guard, Path(folder))), str(ROOT)))
        words = ["--kind", GUARDS[guard.name], "--begin", str(begin), "--most", str(most)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.soak.guards", *words],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
    return int(done.stdout.split()[-1])


def main(words: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser("guards", description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--hunts", type=int, default=5)
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--begin", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS)
    given = parser.parse_args(words)
    if given.kind:
        print(lives_until_one_fails(KINDS[given.kind], given.begin, given.most))
        return 0
    is_late = False
    for guard in MUTATIONS:
        if guard.name not in GUARDS or not all(word in guard.name for word in given.words):
            continue
        begins = range(given.begin, given.begin + given.hunts)
        found = [hunt(guard, begin * 1000, given.most) for begin in begins]
        median = statistics.median(found)
        is_late |= median > given.most
        print(f"{guard.name:<75} median {median:>6.0f} of {sorted(found)}", flush=True)
    return int(is_late)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
