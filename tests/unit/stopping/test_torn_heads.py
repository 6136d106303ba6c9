"""A live manifest or manifest list that breaks after it was read is noticed in the same night."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.drop.recover import recover
from meltline.app.observe.losses.deep_findings import deep_findings
from meltline.app.observe.losses.torn_heads import KIND, is_due
from meltline.app.run.lifecycle import run_chain
from meltline.ports import ObjectStat
from tests.doubles.store import MemoryStore
from tests.lake.lake import DAY, T0, Lake, Table

NAME = "lake.air.t"


@dataclass
class AskedStore:
    """A store that counts what it is asked about each object, but for listings."""

    store: MemoryStore
    asked: Counter[str] = field(default_factory=Counter)

    def read(self, path: str) -> bytes:
        self.asked[path] += 1
        return self.store.read(path)

    def size(self, path: str) -> int | None:
        self.asked[path] += 1
        return self.store.size(path)

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        self.asked.update(paths)
        return self.store.stats(paths)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def a_lake() -> tuple[Lake, Table]:
    """A table with three commits that ten runs have read, and one that is well."""
    lake = Lake()
    table, well = (lake.on(0).table(name) for name in ("t", "well"))
    for day in range(3):
        lake.on(day)
        table.append(f"f{day}")
        well.append(f"w{day}")
    for night in range(10):
        assert lake.on(3 + night / 24).run().exit_code == 0
    return lake, table


def newest(table: Table) -> str:
    """The manifest that only the head names."""
    parent = table.snapshot(table.head)["parent-snapshot-id"]
    (path,) = set(table.manifests(table.head)) - set(table.manifests(parent))
    return path


def the_list(table: Table) -> str:
    return table.manifest_list(table.head)


def tear(lake: Lake, path: str, left: float = 0.5) -> bytes:
    """Only the first part of a file is left, as of a write that was cut short."""
    whole = lake.store.read(path)
    return lake.spoil(path, whole[: int(len(whole) * left)])


def torn(lake: Lake) -> list[str]:
    return [i.object for i in lake.control.incidents.all() if i.kind == KIND]


def night_of(lake: Lake, table: Table, begin: int) -> int:
    """The next day on which it is the table's turn though nothing has changed."""
    return next(day for day in range(begin, begin + 14) if is_due(table.uuid, T0 + day * DAY))


@pytest.mark.parametrize("choose", [newest, the_list], ids=["manifest", "list"])
def test_a_torn_file_of_a_head_that_was_read_is_noticed_by_a_run_and_by_doctor(
    choose: Any,
) -> None:
    lake, table = a_lake()
    head, before = table.head, table.snapshot(table.head)["parent-snapshot-id"]
    good = [entry["metadata-file"] for entry in table.document["metadata-log"]][-1]
    path = choose(table)
    whole = tear(lake, path)
    night = lake.on(night_of(lake, table, 4)).run()
    assert (night.exit_code, torn(lake)) == (4, [f"{NAME}@{head}"])
    (note,) = [note for note in night.notes if path in note]
    assert f"{len(lake.store.read(path))} bytes of {len(whole)}" in note
    assert good in note and f"`meltline rollback {NAME} --to {before}`" in note
    (finding,) = [f for f in examine(lake.services()) if f.object == f"{NAME}@{head}"]
    assert finding.code == "incident" and path in finding.message
    assert str(night.tables[NAME].skipped).startswith(f"{NAME}: the head of main cannot be read")
    assert not night.tables["lake.air.well"].skipped
    lake.mend(path, whole)
    assert lake.on(20).run().exit_code == 0 and torn(lake) == []


@pytest.mark.parametrize("choose", [newest, the_list], ids=["manifest", "list"])
def test_a_missing_file_of_a_head_is_noticed_in_the_night_in_which_its_table_moves(
    choose: Any,
) -> None:
    lake, table = a_lake()
    path, head = choose(table), table.head
    whole = lake.spoil(path, lake.store.read(path))
    lake.store.delete([path])
    table.configure(note="a commit of somebody else")
    day = next(d for d in range(4, 12) if not is_due(table.uuid, T0 + d * DAY))
    # The lake's own run wants every file.
    summary = run_chain(lake.on(day).services(), lake.request())
    assert summary.exit_code == 4 and torn(lake) == [f"{NAME}@{head}"]
    assert any(f"{path}: missing" in note for note in summary.notes)
    lake.mend(path, whole)


def test_doctor_deep_looks_at_every_head_though_no_run_has() -> None:
    lake, table = a_lake()
    assert list(deep_findings(lake.services())) == []
    tear(lake, newest(table))
    assert "incident" not in {f.code for f in examine(lake.services())}
    (finding,) = deep_findings(lake.services())
    assert (finding.code, finding.object) == ("head_torn", f"{NAME}@{table.head}")
    assert "meltline rollback" in finding.fix


def test_after_a_rollback_to_the_good_snapshot_the_incident_is_over() -> None:
    lake, table = a_lake()
    tear(lake, newest(table))
    good = table.snapshot(table.head)["parent-snapshot-id"]
    day = night_of(lake, table, 4)
    lake.on(day).run()
    table.rollback(good)
    lake.on(day + 1).run()
    assert torn(lake) == []


def test_where_the_table_has_no_other_snapshot_recover_brings_the_last_good_one_back() -> None:
    lake, table = a_lake()
    good, path = table.snapshot(table.head)["parent-snapshot-id"], newest(table)
    table.expire_elsewhere(*table.snapshots[:-1])
    assert lake.on(4).run().exit_code == 0
    tear(lake, path)
    table.configure(note="a commit of somebody else")
    lake.on(5).run()
    (incident,) = [i for i in lake.control.incidents.all() if i.kind == KIND]
    assert f"`meltline recover {NAME}@{good} --as NEW" in incident.next
    done = recover(lake.services(), NAME, "lake.air.back", reason="torn", snapshot_id=good)
    assert not done.missing


def test_while_a_head_is_torn_nothing_behind_it_expires() -> None:
    lake, table = a_lake()
    tear(lake, newest(table))
    table.configure(note="a commit of somebody else")
    for day in (4, 20, 40):
        lake.on(day).run()
    assert len(table.snapshots) == 3


# --- no false alarm, and what it costs ------------------------------------------------------------


def test_an_intact_lake_raises_nothing_in_two_weeks() -> None:
    lake, table = a_lake()
    for day in range(4, 18):
        assert lake.on(day).run().exit_code == 0
        table.append(f"d{day}")
    assert torn(lake) == [] and list(deep_findings(lake.services())) == []


def test_in_seven_quiet_nights_each_head_is_looked_at_once_and_each_night_asks_for_few() -> None:
    lake = Lake()
    tables = [lake.on(0).table(f"t{number}") for number in range(21)]
    for table in tables:
        table.append("a")
        table.append("b")
    lake.run()
    lake.on(1).run()
    files = [{the_list(table), *table.manifests(table.head)} for table in tables]
    total, nights = Counter[str](), []
    begin = next(day for day in range(2, 9) if not (T0 + day * DAY).toordinal() % 7)
    for day in range(begin, begin + 7):
        store = AskedStore(lake.store)
        lake.on(day).run(services=lake.services(store=store))
        asked = [path for each in files for path in each if store.asked[path]]
        nights.append(len(asked))
        total.update(asked)
    assert total == Counter(path for each in files for path in each)
    assert max(nights) <= 3 * len(tables)  # a seventh on average, of three files each


def test_a_lake_of_which_one_table_moves_asks_for_the_files_of_that_table() -> None:
    lake = Lake()
    tables = [lake.on(0).table(f"t{number}") for number in range(8)]
    for table in tables:
        table.append("a")
    lake.run()
    lake.on(1).run()
    day = next(d for d in range(2, 60) if not any(is_due(t.uuid, T0 + d * DAY) for t in tables))
    tables[0].append("b")
    store = AskedStore(lake.store)
    lake.on(day).run(services=lake.services(store=store))
    for table in tables[1:]:
        assert not store.asked[the_list(table)]
    assert all(store.asked[path] for path in table_files(tables[0]))


def table_files(table: Table) -> list[str]:
    return [the_list(table), *table.manifests(table.head)]
