"""Nights of two builds over one and the same demo warehouse, in copies at the same place."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from demo.__main__ import FAILSAFE_PASSES, build_lake
from demo.place import Place, environment

Decisions = dict[str, dict[str, Any]]


def demo_nights(
    builds: Sequence[Path], decisions: Callable[[Path, str, Path], Decisions]
) -> list[Decisions]:
    """What each build has decided after two nights: one now, one when failsafe has passed.

    Args:
        builds: Checkouts.
        decisions: Reads them with the build of a checkout; see `tests.comparison.__main__`.
    """
    now = datetime.now(UTC).replace(hour=6, minute=0, second=0, microsecond=0)
    decided = []
    with tempfile.TemporaryDirectory() as folder:
        place, untouched = Place(Path(folder) / "demo"), Path(folder) / "untouched"
        build_lake(place, now)
        place.lake.rename(untouched)
        for build in builds:
            shutil.copytree(untouched, place.lake)
            for night in (now, now + FAILSAFE_PASSES):
                _run(build, place, night)
            decided.append(decisions(build, "lake", place.config))
            shutil.rmtree(place.lake)
    return decided


def _run(build: Path, place: Place, night: datetime) -> None:
    path = os.pathsep.join(str(build / part) for part in ("include", ""))
    settings = {**environment(night, place), "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    as_of = (night - timedelta(hours=6)).isoformat()
    command = [sys.executable, "-m", "meltline.cli.main", "run", "--as-of", as_of]
    subprocess.run(command, cwd=build, env=settings, check=True)
