"""Lives recorded lives again, or reads a real lake, with the build of one checkout.

`python -m tests.comparison` starts it once for each of two checkouts. What it imports comes from
the checkout that `PYTHONPATH` names. Ids that a build draws at random are masked, in names and
under a plan's digest, for two runs of one build differ by these.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from meltline.config.load import load_config
from meltline.domain.deletion.plan import Plan
from meltline.wiring import Wiring
from tests.lives.recorded import live_again, read_moves
from tests.unit.lives.test_kept_lives import LIVES

_DRAWN = re.compile(  # the ids of the tests' lakes begin with zeros
    r"(?!0{8})[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|(?<=snap-)\d{9,}(?=-)"
    r"|(?<=-)m\d+(?=\.metadata\.json)"  # counted in the order in which drawn names are visited
)


def main(kind: str, source: Path, answer: Path) -> None:
    """Writes what was decided in each recorded life of a folder, or in one real lake, as JSON."""
    with answer.open("w", encoding="utf-8") as lines:
        for decided in _of_lives(source) if kind == "lives" else [_of_lake(source)]:
            lines.write(json.dumps(decided) + "\n")


def _of_lives(folder: Path) -> Iterator[dict[str, Any]]:
    files = sorted(folder.glob("*.json"))
    for number, recording in enumerate(files, start=1):
        yield {"lake": recording.stem, **_decided(recording)}
        print(f"\r{number} of {len(files)} lives", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def _of_lake(config: Path) -> dict[str, Any]:
    """The plans of a lake, and the files that are left below its configuration."""
    wiring = Wiring(load_config(config, {}, Path.cwd()), os.environ, progress=lambda _: None)
    left = sorted(
        _masked(str(file.relative_to(config.parent)))
        for folder in ("warehouse", "archive")
        for file in (config.parent / folder).rglob("*.*")
        if file.is_file()
    )
    return {"lake": "demo", "plans": sorted(_plans(wiring.ledgers())), "left": left}


def _decided(recording: Path) -> dict[str, Any]:
    """How a life ends, its plans, and the files that it deleted."""
    life = LIVES[json.loads(recording.read_text("utf-8"))["life"]]()
    end = "well"
    try:
        live_again(life, read_moves(recording))
    except Exception as error:
        end = type(error).__name__
    return {
        "end": end,
        "plans": sorted(_plans(life.lake.services())),
        "deleted": sorted(_masked(path) for path in life.lake.deleter.deleted),
    }


def _plans(services: Any) -> Iterator[str]:
    for plan in services.control.plans.find():
        files = [
            replace(file, path=_masked(file.path))
            for file in services.reader.items(plan.id)[plan.id]
        ]
        masked = replace(plan, table_uuid=_masked(plan.table_uuid))
        yield f"{plan.created_at.isoformat()} {_named(plan)} {masked.digest_of(files)}"


def _named(plan: Plan) -> str:
    return f"{plan.kind} {_masked(str(plan.table))} {plan.state}"


def _masked(text: str) -> str:
    return _DRAWN.sub("drawn", text)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
