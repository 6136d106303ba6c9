"""Real data files that are overwritten in place while they wait: what lies there now stays."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from meltline.domain.iceberg.files import DepartureState, FileKind
from tests.spark.setups import walk
from tests.spark.setups.warehouse import DAY, Warehouse

pytestmark = pytest.mark.spark

CONFIG = "limits:\n  max-delete-ratio: 1.0\n"
WAITED = 9 * DAY  # longer than failsafe, at the machine's own time


def aged(w: Warehouse) -> None:
    """Files as old as the commits that wrote them: staging their times has left them new."""
    old = (datetime.now(UTC) - 40 * DAY).timestamp()
    for path in walk.disk(w.folder):
        os.utime(path, (old, old))


def waiting(w: Warehouse, now: datetime) -> set[str]:
    found = w.services(now).files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
    return {walk.local(one.path) for one in found if one.kind is FileKind.DATA}


def test_files_overwritten_in_place_while_they_wait_stay_and_the_rest_of_the_plan_goes(
    tmp_path: Path,
) -> None:
    w = Warehouse.empty(tmp_path, "replaced", CONFIG)
    w.create("t")
    w.overwrite("t", 0, 10, 20, 30)
    w.stage("t", 40 * DAY, 30 * DAY)
    aged(w)
    before = datetime.now(UTC) - WAITED
    w.init(before)
    assert w.run(before).exit_code == 0
    left = waiting(w, before)
    resized, newer, untouched = sorted(map(Path, left))
    resized.write_bytes(b"another file")
    newer.write_bytes(bytes(reversed(newer.read_bytes())))
    rewritten = {path: path.read_bytes() for path in (resized, newer)}

    now = datetime.now(UTC)
    summary = w.run(now)
    assert summary.exit_code == 0, summary.as_json()
    assert {path: path.read_bytes() for path in rewritten} == rewritten
    assert not untouched.exists()
    assert set(map(Path, waiting(w, now))) == rewritten.keys()
    named = {Path(path) for path in left if any(path in notice for notice in summary.notices)}
    assert named == rewritten.keys()
    kept = [
        e.detail
        for e in w.services(now).control.audit.entries()
        if e.action == "keep replaced file"
    ]
    assert all(any(str(path) in detail for detail in kept) for path in rewritten)
    assert len(w.contents("t")) == 1

    assert w.run(datetime.now(UTC)).plans == {}, "it is not tried again"
    assert {path: path.read_bytes() for path in rewritten} == rewritten
