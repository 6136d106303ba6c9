"""The metrics file on nights on which one unusual table once stopped all purging in silence.

Each stage is a row of the list of such tables: L1 to L11.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.safety.owner_guards import trust
from meltline.domain.deletion.withheld import Why
from meltline.domain.purging.purge_status import HaltReason
from tests.lake.lake import Lake, Table
from tests.lake.swept import swept
from tests.unit.status.nightly import NightlyLake
from tests.unit.stopping.odd_lists import count_wrongly, leave_out_ids, nothing
from tests.unit.stopping.test_contradictory_tables import main_is_a_tag, miscounted, too_few
from tests.unit.stopping.test_equal_ids import share_an_id
from tests.unit.stopping.test_refused_heads import committed_late
from tests.unit.stopping.test_unmanaged_formats import is_format_4

TORN, STRANGER = b'{"format-version": 2, "table', b"99999999-0000-4000-8000-000000000000"
LAST_NIGHT = 24  # windows of 7 days and failsafes of 7 days are over


def counts_wrongly(odd: Table) -> None:
    """L1: totals that are the commit's own."""
    odd.edit(miscounted)


def counted_wrongly_once(odd: Table) -> None:
    """L2: one commit has left all later totals wrong."""
    odd.edit(too_few)


def main_became_a_tag(odd: Table) -> None:
    """L3: which the specification forbids, and readers take."""
    odd.edit(main_is_a_tag)


def counts_its_manifests_wrongly(odd: Table) -> None:
    """L4: a list whose counts are not what its manifests hold."""
    count_wrongly(odd.lake, odd, nothing)


def has_no_field_ids(odd: Table) -> None:
    """L5: as S3 Tables and Firehose write lists and manifests."""
    leave_out_ids(odd.lake, odd)


def is_dark(odd: Table) -> None:
    """L7: it goes over to a format that Meltline cannot read."""
    odd.lake.run()
    odd.edit(is_format_4)


def added_a_file_twice(odd: Table) -> None:
    """L6: as `add_files` does it twice; an overwrite removes both entries and counts both."""
    odd.append("a")
    odd.overwrite("z")


def counted_one_of_two_removals(odd: Table) -> None:
    """L6 as PyIceberg writes it: both entries leave, and its total subtracts one file."""
    added_a_file_twice(odd)
    odd.edit(one_too_many)


def one_too_many(document: dict[str, Any]) -> None:
    summary = document["snapshots"][-1]["summary"]
    summary["total-data-files"] = str(int(summary["total-data-files"]) + 1)


def shares_an_id(odd: Table) -> None:
    """L7: two of its snapshots have one id, which commands and Iceberg's Java library refuse."""
    share_an_id(odd)


def refused_by_java(odd: Table) -> None:
    """L10: a head that was committed with a time before its log's."""
    committed_late(odd, timedelta(minutes=2))


def wrote_more_than_it_says(odd: Table) -> None:
    """L9: one file is longer than its manifest says."""
    odd.lake.store.write(odd.data("a"), b"n" * 300)
    odd.overwrite("d")


def has_torn_metadata_beside(odd: Table) -> None:
    """A writer died while it wrote a metadata file, which nobody ever named."""
    odd.lake.store.write(beside(odd), TORN)
    odd.overwrite("d")


def has_foreign_metadata_beside(odd: Table) -> None:
    """A table that no catalog shows has written there."""
    content = odd.lake.store.read(odd.metadata_location)
    odd.lake.store.write(beside(odd), content.replace(odd.uuid.encode(), STRANGER))
    odd.overwrite("d")


def beside(odd: Table) -> str:
    return f"{odd.location}/metadata/00077-x.metadata.json"


def nights_after(
    stage: Callable[[Table], None], file: Path, *, lake: Lake | None = None, is_swept: bool = False
) -> tuple[NightlyLake, Table]:
    """Some weeks with a table of some kind beside a sound one, with a sweep in each or none."""
    nightly = NightlyLake(file, lake or Lake())
    odd = nightly.lake.table("odd")
    for part in "abc":
        odd.append(part)
    stage(odd)
    for day in range(1, LAST_NIGHT):
        nightly.night(day)
        if is_swept and day % 7 == 0:
            swept(nightly.lake, day + 0.1)
    return nightly, odd


@pytest.mark.parametrize(
    ("stage", "state"),
    [
        (counts_wrongly, "contradictory"),
        (counted_wrongly_once, "contradictory"),
        (main_became_a_tag, "live"),
        (counts_its_manifests_wrongly, "contradictory"),
        (has_no_field_ids, "live"),
        (added_a_file_twice, "live"),
        (counted_one_of_two_removals, "contradictory"),
        (shares_an_id, "contradictory"),
        (refused_by_java, "live"),
    ],
)
def test_one_unusual_table_is_counted_and_purging_goes_on(
    stage: Callable[[Table], None], state: str, tmp_path: Path
) -> None:
    samples = nights_after(stage, tmp_path / "metrics.prom")[0].samples()
    sound, odd = (1, 1) if state != "live" else (2, 2)
    assert samples["meltline_tables", "live"] == sound
    assert samples["meltline_tables", state] == odd
    assert {samples["meltline_purge_stopped", str(reason)] for reason in HaltReason} == {0}
    assert samples["meltline_overdue_bytes", ""] == 0
    assert samples["meltline_stage_bytes", "deleted"] > 0


@pytest.mark.parametrize("added", [["a"], ["a", "a"]], ids=["by_two_commits", "by_one_commit"])
def test_a_file_added_twice_goes_once_a_person_trusts_its_tables_manifests(
    added: list[str], tmp_path: Path
) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    odd = nightly.lake.table("odd")
    odd.append(*added)
    nightly.nights(1, 2)
    counted_one_of_two_removals(odd)
    nightly.nights(*range(3, LAST_NIGHT))
    assert nightly.lake.store.size(odd.data("a"))
    trust(nightly.services(), odd.name, "its writer counts one of two removals")
    nightly.nights(*range(LAST_NIGHT, 2 * LAST_NIGHT))
    assert len(odd.snapshots) == 1 and nightly.lake.store.size(odd.data("a")) is None
    assert nightly.samples()["meltline_tables", "live"] == 2


def test_a_torn_newest_commit_stops_all_purging_aloud(tmp_path: Path) -> None:
    """L11: what it names may be any file (decision 056); the first sentence has both ways on."""
    nightly = NightlyLake(tmp_path / "metrics.prom")
    odd = nightly.lake.table("odd")
    odd.append("a")
    nightly.nights(*range(1, 12))
    before = odd.manifests(odd.head)
    odd.append("b")
    (torn,) = set(odd.manifests(odd.head)).difference(before)
    content = nightly.lake.spoil(torn)
    first = nightly.night(12).as_json()["recap"][0]
    assert "lake.air.odd" in first
    assert "`meltline doctor` names the files" in first
    assert "`meltline detach lake.air.odd --reason TEXT`" in first
    assert nightly.samples()["meltline_purge_stopped", "tables_unread"] == 1
    nightly.lake.mend(torn, content)
    nightly.night(13)
    assert nightly.samples()["meltline_purge_stopped", "tables_unread"] == 0


@pytest.mark.parametrize(("holds_group", "stopped"), [(False, 1), (True, 0)])
def test_a_format_that_nobody_can_read_stops_purging_unless_its_group_alone_waits(
    holds_group: bool, stopped: int, tmp_path: Path
) -> None:
    """L7: the first sentence has both ways on; the second is a choice of the site."""
    nightly, _ = nights_after(
        is_dark, tmp_path / "metrics.prom", lake=Lake(holds_group=holds_group)
    )
    samples, first = nightly.samples(), nightly.run().as_json()["recap"][0]
    assert samples["meltline_tables", "unreadable"] == 1
    assert samples["meltline_purge_stopped", "tables_unread"] == stopped
    assert ("`meltline detach lake.air.odd --reason TEXT`" in first) == bool(stopped)
    assert ("`unreadable: hold-group` in meltline.yaml" in first) == bool(stopped)
    assert (samples["meltline_stage_bytes", "deleted"] == 0) == bool(stopped)


def test_a_file_that_is_longer_than_its_manifest_says_is_held_back_aloud(tmp_path: Path) -> None:
    """L9: purging has not stopped; what stays is named each night, and never called deleted."""
    nightly, _ = nights_after(wrote_more_than_it_says, tmp_path / "metrics.prom")
    summary = nightly.run()
    assert "purging has stopped" not in summary.as_json()["recap"][0]
    (notice,) = (n for n in summary.notices if "lake.air.odd: 1 files, 300 B, are kept" in n)
    assert "`meltline sweep`" in notice and summary.exit_code == 0
    samples = nightly.samples()
    assert samples["meltline_held_back_bytes", "not_as_recorded"] == 300
    assert samples["meltline_overdue_bytes", ""] > 0
    assert {samples["meltline_purge_stopped", str(reason)] for reason in HaltReason} == {0}
    assert nightly.status().held_back[Why.NOT_AS_RECORDED] == 300


@pytest.mark.parametrize("is_swept", [False, True])
def test_a_torn_metadata_file_beside_a_tables_own_is_named_and_purging_goes_on(
    is_swept: bool, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.prom"
    nightly, odd = nights_after(has_torn_metadata_beside, file, is_swept=is_swept)
    assert nightly.run().exit_code == 0
    assert nightly.lake.store.size(beside(odd)) == len(TORN)
    (warning,) = (f for f in examine(nightly.services()) if f.code == "foreign_owner")
    assert f"`meltline sweep allow {beside(odd)} --reason TEXT`" in warning.fix
    assert odd.data("a") not in nightly.lake.paths()
    samples = nightly.samples()
    assert samples["meltline_overdue_bytes", ""] == 0
    assert samples["meltline_held_back_bytes", "foreign"] == (len(TORN) if is_swept else 0)


@pytest.mark.parametrize("is_swept", [False, True])
def test_a_foreign_metadata_file_beside_a_tables_own_holds_back_that_table_alone(
    is_swept: bool, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.prom"
    nightly, _ = nights_after(has_foreign_metadata_beside, file, is_swept=is_swept)
    summary = nightly.night(LAST_NIGHT)
    first = summary.as_json()["recap"][0]
    assert "of `lake.air.busy` deleted" in first and "purging has stopped" not in first
    assert any("lake.air.odd" in note and "has another owner" in note for note in summary.notes)
    samples = nightly.samples()
    assert samples["meltline_held_back_bytes", "foreign"] > 0
    assert samples["meltline_purge_stopped", "tables_unread"] == 0
