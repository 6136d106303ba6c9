"""Compares what two builds decide on the same lakes: `python -m tests.comparison OLD_CHECKOUT`.

For a change that must not change what is kept, deleted or refused. Random lives are recorded here,
and both builds live them again: every plan, its digest, its state, and every deleted file must be
the same. With `--demo` both also run nights over one and the same demo warehouse.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from meltline.domain.units import counted
from tests.comparison.demo_nights import Decisions, demo_nights
from tests.lives.recorded import RecordedLife, live, to_json
from tests.unit.lives.test_kept_lives import LIVES

CHECKOUT = Path(__file__).resolve().parents[2]
_SHARES = {  # of all lives; the rest are RandomLifecycles
    "RandomArchives": 0.15,
    "StrangeLifecycles": 0.1,
    "ChunkLives": 0.15,
    "RollupLives": 0.05,
}
_MOVES = 20
_SHOWN = 5


def main(old: Path, lakes: int, seed: int, *, demo: bool) -> int:
    """Compares two builds and prints where they part.

    Returns:
        0 where they decide the same, 1 where not.
    """
    with tempfile.TemporaryDirectory() as folder:
        recordings = Path(folder) / "recordings"
        recordings.mkdir()
        record_lives(recordings, lakes, seed)
        with ThreadPoolExecutor(2) as both:
            lives = both.map(
                partial(decisions_of, kind="lives", source=recordings), (old, CHECKOUT)
            )
            sides = list(lives)
    differences = list(differences_between(*sides))
    decided = sum(len(life["plans"]) for life in sides[1].values())
    if failed := [name for name, life in sides[1].items() if life["end"] != "well"]:
        print(f"these lives fail, and are compared up to there: {', '.join(failed)}")
    print(
        f"{counted(len(sides[1]), 'lake')}, {counted(decided, 'plan')}: {len(differences)} differ"
    )
    if demo:
        nights = demo_nights((old, CHECKOUT), decisions_of)
        differences += differences_between(*nights)
        print(f"the demo's lake: {sum(len(night['plans']) for night in nights[1].values())} plans")
    print(*differences, sep="\n")
    return 1 if differences else 0


def record_lives(folder: Path, lakes: int, seed: int) -> None:
    """Lives random lives in this checkout and writes each down."""
    counts = {kind: round(lakes * share) for kind, share in _SHARES.items()}
    counts["RandomLifecycles"] = lakes - sum(counts.values())
    for kind, lives in counts.items():
        if lives:
            keep = partial(_write, folder, kind)
            live(LIVES[kind], lives=lives, moves=_MOVES, begin=seed, failed=None, after_each=keep)


def _write(folder: Path, kind: str, life: RecordedLife) -> None:
    number = sum(1 for _ in folder.iterdir())
    (folder / f"{number:04d}-{kind}.json").write_text(to_json(kind, "", life.moves), "utf-8")


def decisions_of(checkout: Path, kind: str, source: Path) -> Decisions:
    """What the build of a checkout decides in `lives` of a folder, or has decided in a `lake`."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "decisions.jsonl"
        script = CHECKOUT / "tests" / "comparison" / "decisions.py"
        path = os.pathsep.join(str(checkout / part) for part in ("", "include"))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        command = [sys.executable, str(script), kind, str(source), str(answer)]
        subprocess.run(command, cwd=checkout, env=environment, check=True)
        lakes = [json.loads(line) for line in answer.read_text("utf-8").splitlines()]
    return {lake.pop("lake"): lake for lake in lakes}


def differences_between(old: Decisions, new: Decisions) -> Iterator[str]:
    """A sentence for each fact of a lake on which two builds differ, with examples."""
    for lake in sorted(old.keys() | new.keys()):
        before, after = (Counter(_lines(side.get(lake, {}))) for side in (old, new))
        parted = [f"- {line}" for line in before - after] + [f"+ {line}" for line in after - before]
        if parted:
            yield "\n  ".join([f"{lake}: {len(parted)} differ", *parted[:_SHOWN]])


def _lines(facts: Mapping[str, Any]) -> Iterator[str]:
    for fact, lines in facts.items():
        for line in [lines] if isinstance(lines, str) else lines:
            yield f"{fact}: {line}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, help="a checkout of the build before, set up")
    parser.add_argument("--lakes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--demo", action="store_true", help="nights over the demo's warehouse, too")
    given = parser.parse_args()
    sys.exit(main(given.old.resolve(), given.lakes, given.seed, demo=given.demo))
