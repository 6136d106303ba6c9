"""Tables that were read wholly and contradict themselves: their group waits, the others go on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from meltline.app.catalog.management import attach, detach
from meltline.app.doctor.doctor import examine
from meltline.app.doctor.init import init
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.safety.owner_guards import trust, trusted_tables
from meltline.domain.errors import UsageInvalid
from meltline.ports import SnapshotKey
from tests.lake.avro_files import list_bytes
from tests.lake.lake import Lake, Table

Document = dict[str, Any]
LAST_DAY = 30  # windows of 7 days and failsafes of 7 days are over


def miscounted(document: Document) -> None:
    """Totals that are the commit's own, as some libraries write them."""
    for snapshot in document["snapshots"]:
        added = "1" if snapshot is not document["snapshots"][0] else "0"
        snapshot["summary"]["total-data-files"] = added


def too_few(document: Document) -> None:
    """Totals that one wrong commit has left too high for ever."""
    for snapshot in document["snapshots"]:
        snapshot["summary"]["total-data-files"] = "9"


def main_is_a_tag(document: Document) -> None:
    document["refs"]["main"]["type"] = "tag"


def ref_dangles(document: Document) -> None:
    document["refs"]["old"] = {"snapshot-id": 12345, "type": "tag"}


def a_lake(change: Callable[[Document], None]) -> tuple[Lake, Table, Table]:
    """Two tables of three commits each, one of which is first seen as a writer has left it."""
    lake = Lake()
    odd, well = (lake.on(0).table(name) for name in ("odd", "well"))
    for day in range(3):
        lake.on(day)
        odd.append(f"o{day}")
        well.overwrite(f"w{day}")
    odd.edit(change)
    return lake, odd, well


def nights(lake: Lake) -> list[int]:
    """Runs every fifth day; returns their exit codes."""
    return [lake.on(day).run().exit_code for day in range(3, LAST_DAY, 5)]


@pytest.mark.parametrize("change", [miscounted, too_few, main_is_a_tag, ref_dangles])
def test_a_table_that_was_read_wholly_stops_no_other_tables_purge(
    change: Callable[[Document], None],
) -> None:
    lake, odd, well = a_lake(change)
    gone = {well.data("w0"), well.data("w1")}
    assert set(nights(lake)) == {4}
    assert len(well.snapshots) == 1 and not gone & lake.paths()
    assert len(odd.snapshots) == 3
    summary = lake.run().as_json()
    assert {t["table"] for t in summary["tables"] if t["skipped"]} == {str(odd.name)}
    findings = examine(lake.services())
    assert [f for f in findings if f.object == str(odd.name)]
    assert not [f for f in findings if f.code == "purging_held_back"]


@pytest.mark.parametrize("change", [miscounted, too_few])
def test_a_run_names_the_word_that_lets_such_a_table_go_on(
    change: Callable[[Document], None],
) -> None:
    lake, odd, _ = a_lake(change)
    nights(lake)
    (line,) = [t for t in lake.run().as_json()["tables"] if t["skipped"]]
    assert "contradicts itself" in line["skipped"]
    assert f"`meltline trust {odd.name} --manifests --reason TEXT`" in line["next"]


@pytest.mark.parametrize("change", [miscounted, too_few])
def test_what_shares_files_with_it_waits(change: Callable[[Document], None]) -> None:
    lake, odd, well = a_lake(change)
    odd.append(well.data("w0"))
    odd.edit(change)
    nights(lake)
    assert well.data("w0") in lake.paths() and well.data("w1") in lake.paths()


def test_a_list_that_ends_after_its_header_may_have_named_any_file() -> None:
    lake, odd, well = a_lake(lambda document: None)
    head = odd.snapshot(odd.head)
    lake.spoil(head["manifest-list"], empty_list(lake, odd))
    assert set(nights(lake)) == {4}
    assert well.data("w0") in lake.paths()


def empty_list(lake: Lake, table: Table) -> bytes:
    """A list that names no manifest, sound as a file."""
    return list_bytes(table.version, [])


@pytest.mark.parametrize("change", [miscounted, too_few])
def test_a_person_who_trusts_its_manifests_has_it_expired_and_purged(
    change: Callable[[Document], None],
) -> None:
    lake, odd, _ = a_lake(change)
    nights(lake)
    trust(lake.services(), odd.name, "our writer counts its own commit alone")
    odd.overwrite("new")
    odd.edit(change)  # every later commit counts as wrongly
    for day in range(LAST_DAY, 2 * LAST_DAY, 5):
        assert lake.on(day).run().exit_code == 0
    assert len(odd.snapshots) == 1 and odd.data("o0") not in lake.paths()
    (finding,) = [f for f in examine(lake.services()) if f.code == "manifests_trusted"]
    assert finding.object == str(odd.name)


def test_a_table_that_contradicts_nothing_is_not_to_be_trusted() -> None:
    lake, _, well = a_lake(miscounted)
    nights(lake)
    with pytest.raises(UsageInvalid, match="cannot be trusted yet"):
        trust(lake.services(), well.name, "why not")


def test_a_torn_manifest_of_a_trusted_table_holds_it_back_as_ever() -> None:
    lake, odd, _ = a_lake(miscounted)
    nights(lake)
    trust(lake.services(), odd.name, "our writer counts its own commit alone")
    odd.overwrite("new")
    lake.spoil(odd.manifests(odd.head)[0])
    assert lake.on(LAST_DAY + 20).run().exit_code == 4
    assert len(odd.snapshots) == 4


def test_a_gate_refuses_a_trusted_table_whose_new_list_ends_after_its_header() -> None:
    lake, odd, _ = a_lake(miscounted)
    nights(lake)
    trust(lake.services(), odd.name, "our writer counts its own commit alone")
    services = lake.on(LAST_DAY).services()
    planned = [p.plan for p in Run(services, lake.request()).plan_expiration()]
    odd.append("late")
    lake.spoil(odd.snapshot(odd.head)["manifest-list"], list_bytes(odd.version, []))
    ((plan, verdict),) = run_gate(services, planned)
    assert plan.table == odd.name and verdict.failed_on("unreadable")


def test_an_adopted_lake_has_to_be_told_anew_what_is_trusted() -> None:
    lake, odd, _ = a_lake(miscounted)
    nights(lake)
    trust(lake.services(), odd.name, "our writer counts its own commit alone")
    assert trusted_tables(lake.control.decisions)
    lake.control.database.set_generation(9)
    init(lake.services(), adopt=True)
    assert not trusted_tables(lake.control.decisions)


def test_the_totals_count_again_once_the_table_was_detached() -> None:
    lake, odd, _ = a_lake(miscounted)
    nights(lake)
    trust(lake.services(), odd.name, "our writer counts its own commit alone")
    detach(lake.services(), [odd.name], "somebody else looks after it")
    attach(lake.services(), odd.name)
    assert lake.on(LAST_DAY + 20).run().exit_code == 4
    assert len(odd.snapshots) == 3


def test_a_gate_that_reads_other_files_than_the_index_refuses_a_trusted_table() -> None:
    lake, odd, _ = a_lake(miscounted)
    nights(lake)
    trust(lake.services(), odd.name, "our writer counts its own commit alone")
    services = lake.on(LAST_DAY).services()
    files = services.files
    wrong = replace(files, snapshots=WrongTotals(files.snapshots))
    summary = lake.run(services=replace(services, files=wrong))
    assert summary.exit_code == 3 and len(odd.snapshots) == 3


@dataclass(frozen=True)
class WrongTotals:
    """An index that has other totals of every head than its files."""

    inner: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def live_totals(self, heads: Sequence[SnapshotKey]) -> Mapping[SnapshotKey, tuple[int, int]]:
        known: Mapping[SnapshotKey, tuple[int, int]] = self.inner.live_totals(heads)
        return {key: (files + 1, size) for key, (files, size) in known.items()}


def test_it_expires_as_ever_once_its_totals_are_right_again() -> None:
    lake, odd, _ = a_lake(miscounted)
    nights(lake)

    def mended(document: Document) -> None:
        for number, snapshot in enumerate(document["snapshots"], start=1):
            snapshot["summary"]["total-data-files"] = str(number)

    odd.edit(mended)
    assert lake.on(LAST_DAY + 1).run().exit_code == 0
    assert len(odd.snapshots) == 1
