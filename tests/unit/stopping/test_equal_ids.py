"""Tables in which two snapshots have one id: what either refers to stays, the others go on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from meltline.app.catalog.management import detach
from meltline.app.catalog.resolve import read_table
from meltline.app.doctor.doctor import examine
from meltline.app.purge.purge import apply_purges
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.safety.owner_guards import trust
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import MetadataUnreadable
from meltline.ports import PurgeVeto
from tests.lake.lake import Lake, Table

Document = dict[str, Any]
LAST_DAY = 30  # windows of 7 days and failsafes of 7 days are over


def share_an_id(table: Table, *, at: int = 1) -> None:
    """Has the snapshot at a place take the id of the one before it."""

    def change(document: Document) -> None:
        earlier, later = (s["snapshot-id"] for s in document["snapshots"][at - 1 : at + 1])
        for entry in (*document["refs"].values(), *document["snapshot-log"]):
            if entry["snapshot-id"] == later:
                entry["snapshot-id"] = earlier
        document["current-snapshot-id"] = document["refs"]["main"]["snapshot-id"]
        document["snapshots"][at]["snapshot-id"] = earlier
        for child in document["snapshots"][at + 1 :]:
            child["parent-snapshot-id"] = earlier

    table.edit(change)


def a_lake(*, seen: bool, at: int = 1) -> tuple[Lake, Table, Table]:
    """Two tables; snapshots of one share an id, from the start or after a run has seen it."""
    lake = Lake()
    odd, well = (lake.on(0).table(name) for name in ("odd", "well"))
    for day in range(3):
        lake.on(day)
        odd.overwrite(f"o{day}")
        well.overwrite(f"w{day}")
    if seen:
        assert lake.run().exit_code == 0
    if at > 0:
        share_an_id(odd, at=at)
    return lake, odd, well


def nights(lake: Lake, begin: int = 3) -> list[int]:
    """Runs every fifth day; returns their exit codes."""
    return [lake.on(day).run().exit_code for day in range(begin, begin + LAST_DAY, 5)]


@pytest.mark.parametrize("seen", [False, True], ids=["at_first_sight", "later"])
def test_a_table_with_equal_ids_loses_nothing_and_stops_no_other_tables_purge(seen: bool) -> None:
    lake, odd, well = a_lake(seen=seen)
    before = {path for path in lake.paths() if path.startswith(odd.location)}
    assert set(nights(lake)) == {4}
    assert len(well.snapshots) == 1 and well.data("w0") not in lake.paths()
    assert before <= lake.paths()
    summary = lake.run().as_json()
    (line,) = [t for t in summary["tables"] if t["skipped"]]
    assert line["table"] == str(odd.name) and "two snapshots have the id" in line["skipped"]
    findings = examine(lake.services())
    assert [f for f in findings if f.object == str(odd.name) and f.code == "table_skipped"]
    assert not [f for f in findings if f.code == "purging_held_back"]


@pytest.mark.parametrize("at", [1, 2], ids=["two_old_ones", "the_head_and_its_parent"])
@pytest.mark.parametrize("seen", [False, True], ids=["at_first_sight", "later"])
def test_another_tables_file_stays_that_one_of_two_namesakes_names(at: int, seen: bool) -> None:
    lake, odd, well = a_lake(seen=seen, at=-1)
    third = lake.on(2).table("third")
    third.overwrite("t0")
    third.overwrite("t1")
    odd.replace(remove=[odd.data("o2")], add=[well.data("w0")])
    odd.overwrite("o3")
    share_an_id(odd, at=at + 2)
    nights(lake)
    assert well.data("w0") in lake.paths() and third.data("t0") not in lake.paths()


def test_a_namesake_whose_list_is_torn_may_need_any_file() -> None:
    lake, odd, well = a_lake(seen=False)
    later = odd.document["snapshots"][1]["manifest-list"]
    content = lake.spoil(later)
    assert set(nights(lake)) == {4}
    assert well.data("w0") in lake.paths()
    (line,) = [t for t in lake.run().as_json()["tables"] if t["skipped"]]
    assert "cannot be read completely" in line["skipped"]
    lake.mend(later, content)
    nights(lake, 2 * LAST_DAY)
    assert well.data("w0") not in lake.paths()


def test_a_gate_sees_what_a_namesake_names_that_came_after_the_plan() -> None:
    lake, odd, well = a_lake(seen=True, at=-1)
    services = lake.on(LAST_DAY).services()
    planned = [p.plan for p in Run(services, lake.request()).plan_expiration()]
    odd.append(well.data("w0"))
    odd.overwrite("o3")
    share_an_id(odd, at=4)
    verdicts = {plan.table: verdict for plan, verdict in run_gate(services, planned)}
    assert verdicts[well.name].failed_on("planned_referenced")


def test_a_purge_keeps_what_a_namesake_names_that_came_after_its_gate() -> None:
    lake, odd, well = a_lake(seen=True, at=-1)
    lake.on(11).run()
    plans = gated_purges(lake.on(20))
    assert well.data("w0") in lake.waiting()
    odd.append(well.data("w0"))
    odd.overwrite("o3")
    share_an_id(odd, at=len(odd.snapshots) - 1)
    apply_purges(lake.services(), plans)
    assert well.data("w0") in lake.paths()


def gated_purges(lake: Lake) -> list[Plan]:
    services = lake.services()
    planned = [p.plan for p in Run(services, lake.request()).plan_purge()]
    return [plan for plan, _ in run_gate(services, planned)]


@dataclass(frozen=True)
class Meanwhile:
    """Vetoes as they are, and something that happens before each time that they are read."""

    inner: Any
    happens: Callable[[], object]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def all(self) -> Sequence[PurgeVeto]:
        self.happens()
        vetoes: Sequence[PurgeVeto] = self.inner.all()
        return vetoes


def test_a_commit_to_such_a_table_stops_no_purge_that_is_under_way() -> None:
    lake, odd, well = a_lake(seen=True)
    lake.on(11).run()
    plans = gated_purges(lake.on(20))
    commits = iter(["o3", "o4", "o5"])
    control = replace(
        lake.control,
        vetoes=Meanwhile(lake.control.vetoes, lambda: odd.append(next(commits, "o6"))),
    )
    (done,) = apply_purges(lake.services(control=control), plans)
    assert done.error is None and well.data("w0") not in lake.paths()


def test_commands_refuse_a_table_in_which_an_id_tells_no_snapshot() -> None:
    lake, odd, well = a_lake(seen=True)
    with pytest.raises(MetadataUnreadable, match="two snapshots have the id"):
        read_table(lake.services(), odd.name)
    assert read_table(lake.services(), well.name).snapshots


def test_no_trust_covers_equal_ids_and_a_reason_ends_the_alarm() -> None:
    lake, odd, _ = a_lake(seen=True)
    nights(lake)
    trust(lake.services(), odd.name, "why not")
    assert lake.on(2 * LAST_DAY).run().exit_code == 4
    detach(lake.services(), [odd.name], "its owner mends it")
    assert lake.run().exit_code == 0
    assert len(odd.snapshots) == 3


@pytest.mark.parametrize(("seen", "stays"), [(False, 0), (False, 1), (True, 0)])
def test_the_table_goes_on_once_ids_differ_again(seen: bool, stays: int) -> None:
    lake, odd, _ = a_lake(seen=seen)
    nights(lake)
    odd.edit(lambda document: document["snapshots"].pop(1 - stays))
    odd.overwrite("o3")
    assert nights(lake, 2 * LAST_DAY)[-1] == 0
    assert len(odd.snapshots) == 1 and odd.data(f"o{stays}") not in lake.paths()


def test_what_a_namesake_of_a_dropped_table_names_stays() -> None:
    lake, odd, well = a_lake(seen=True, at=-1)
    odd.append(well.data("w0"))
    odd.overwrite("o3")
    share_an_id(odd, at=4)
    lake.run()
    odd.drop()
    nights(lake)
    assert well.data("w0") in lake.paths()
    (finding,) = [f for f in examine(lake.services()) if f.code == "table_gone"]
    assert finding.object == str(odd.name) and "never read completely" in finding.message
