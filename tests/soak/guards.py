"""Counts the random lives that it takes until one finds a guard that was removed.

    python -m tests.soak.guards [WORDS OF A NAME] [--hunts 5] [--most 2000]

Each hunt lives new lives on a broken copy of the package until one of them fails that does not fail
on the sound one. Exits 1 when the median hunt of a guard needs more lives than `--most`.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.chunks.chunk_lives import ChunkLives, ReopenedChunkLives
from tests.lives.copied_installations import CopiedInstallations
from tests.lives.recorded import RecordedLife, failure, live, read_moves, to_json
from tests.mutation.__main__ import broken_checkout
from tests.mutation.mutation import Mutation
from tests.mutation.mutations import MUTATIONS
from tests.unit.lives.test_random_lifecycles import LosingLifecycles, StrangeLifecycles

MOVES = 30
KINDS: Mapping[str, type[RecordedLife]] = {
    kind.__name__: kind
    for kind in (
        StrangeLifecycles,
        LosingLifecycles,
        CopiedInstallations,
        ChunkLives,
        ReopenedChunkLives,
    )
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
    "losses: a commit that vanishes is no incident": "LosingLifecycles",
    "losses: every head that is gone has vanished": "LosingLifecycles",
    "losses: what a table keeps of a vanished commit is purged like the rest": "LosingLifecycles",
    "an unknown mark of a storage root counts as ours": "CopiedInstallations",
    "a run that destroys leaves no mark in the storage roots": "CopiedInstallations",
    "drops: a line that begins later comes from the drop": "ChunkLives",
    "drops: a rollback undoes no drop": "ChunkLives",
    "drops: an observation records nothing": "ChunkLives",
    "drops: the view guesses where nobody can tell": "ChunkLives",
    "drops: a pass copies where nobody can tell": "ChunkLives",
    "drops: a commit of ours that a replaced main leaves out was never made": "ChunkLives",
    "drops: what cold has is noted anew before it has been brought to what hot has":
        "ReopenedChunkLives",
    "chunks: whatever type a column has, cold gets it": "ChunkLives",
    "counts: a pass counts on whatever cold has": "ChunkLives",
    "checksums: a pass compares none": "ChunkLives",
    "cold: a sync is declared to a table that another installation writes": "ChunkLives",
    "cold's upkeep: late files are not recorded": "ReopenedChunkLives",
    "cold's upkeep: a mixed file counts as what was dropped": "ReopenedChunkLives",
    "kept: what came before the delete is not copied first": "ChunkLives",
    "kept: a word that cannot be carried out is recorded": "ChunkLives",
}  # fmt: skip
"""Guards against owners that Meltline does not see, and of chunks, with the lives to find each."""


def lives_until_one_fails(kind: type[RecordedLife], begin: int, most: int, recording: Path) -> int:
    """Returns how many lives it took, and writes down the one that failed, if any did."""
    ended = 0

    def count(life: object) -> None:
        nonlocal ended
        ended += 1

    try:
        live(kind, lives=most, moves=MOVES, begin=begin, failed=None, after_each=count)
    except Exception:
        assert RecordedLife.newest is not None
        moves = RecordedLife.newest.moves
        recording.write_text(to_json(kind.__name__, "", moves), "utf-8")
        return max(1, ended)
    return most


def hunt(guard: Mutation, begin: int, most: int, keep: Path | None = None) -> int:
    """Returns how many lives it takes to find the missing guard; `most` + 1 where none has.

    The life that has found it is written into a folder to `keep` it in.
    """
    kind, lived = KINDS[GUARDS[guard.name]], 0
    with tempfile.TemporaryDirectory(prefix="hunt-") as name:
        folder = Path(name)
        checkout, recording = folder / "checkout", folder / "life.json"
        checkout.mkdir()
        imports = broken_checkout(guard, checkout)
        while lived < most:
            lived += _lives_on(checkout, imports, guard, begin, most - lived, recording)
            if recording.exists() and not failure(kind, read_moves(recording)):
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    shutil.copy(recording, keep / f"{'-'.join(guard.name.split())}-{begin}.json")
                return lived
            recording.unlink(missing_ok=True)  # it fails with the guard, too
            begin += 1
    return most + 1


def _lives_on(
    checkout: Path,
    imports: dict[str, str],
    guard: Mutation,
    begin: int,
    most: int,
    recording: Path,
) -> int:
    """The same in a process of its own, on a package without the guard."""
    words = ["--kind", GUARDS[guard.name], "--begin", str(begin), "--most", str(most)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.guards", *words, "--recording", str(recording)],
        cwd=checkout, env=os.environ | imports,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout.split()[-1])


def main(words: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser("guards", description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--hunts", type=int, default=5)
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--begin", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the lives that find a guard")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--recording", type=Path)
    given = parser.parse_args(words)
    if given.kind:
        kind = KINDS[given.kind]
        print(lives_until_one_fails(kind, given.begin, given.most, given.recording))
        return 0
    is_late = False
    for guard in MUTATIONS:
        if guard.name not in GUARDS or not all(word in guard.name for word in given.words):
            continue
        begins = range(given.begin, given.begin + given.hunts)
        found = [hunt(guard, begin * 1000, given.most, given.keep) for begin in begins]
        median = statistics.median(found)
        is_late |= median > given.most
        print(f"{guard.name:<75} median {median:>6.0f} of {sorted(found)}", flush=True)
    return int(is_late)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
