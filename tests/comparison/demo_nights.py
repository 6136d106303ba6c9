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
from meltline.app.safety.installations import mark_of
from meltline.domain.epochs import EpochNote

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
        ended = EpochNote(Path(mark_of(str(place.warehouse))).read_text("utf-8")).id
        place.lake.rename(untouched)
        for build in builds:
            shutil.copytree(untouched, place.lake)
            # The builds' ledgers may have different schemas: each begins with its own.
            (place.lake / "control.db").unlink()
            _meltline(build, place, now, "init", "--adopt", "--installation", ended)
            for night in (now, now + FAILSAFE_PASSES):
                as_of = (night - timedelta(hours=6)).isoformat()
                _meltline(build, place, night, "run", "--as-of", as_of)
            decided.append(decisions(build, "lake", place.config))
            shutil.rmtree(place.lake)
    return decided


def _meltline(build: Path, place: Place, night: datetime, *arguments: str) -> None:
    path = os.pathsep.join(str(build / part) for part in ("include", ""))
    settings = {**environment(night, place), "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "meltline.cli.main", *arguments]
    subprocess.run(command, cwd=build, env=settings, check=True)
