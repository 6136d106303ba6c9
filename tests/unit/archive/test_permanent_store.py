"""The permanent store: what goes there before a prune, and stays (docs/decisions/018)."""

import pytest

from meltline.app.archive.permanent_store import Deepened, Recalled, deepen, recall
from meltline.domain.errors import (
    ColdMissing,
    GateNotPassed,
    TableNotFound,
)
from meltline.domain.iceberg.names import TableName
from tests.lake.lake import Lake
from tests.unit.archive.test_cold_past import NAME, services
from tests.unit.prune.test_cold_prune import (
    DEEP,
    archived,
    cold_files,
    ids,
    needed,
    ports,
    pruned,
    refused,
)


def deepened(lake: Lake, name: TableName | None = None) -> Deepened:
    (done,) = deepen(ports(lake), name)
    return done


def test_where_a_deep_copy_is_due_nothing_goes_before_it_is_there_and_it_stays_for_ever() -> None:
    # AR-29
    lake, _ = archived(**{"meltline.deep": "true"})
    lake.on(30)
    assert "planned_not_deep" in refused(lake, GateNotPassed)
    assert "permanent" in refused(lake, GateNotPassed, deep=None)
    needs = needed(lake)
    done = deepened(lake)
    assert (done.snapshots, done.errors) == (len(ids(lake)), [])
    deep = {path: lake.store.read(path) for path in lake.paths(DEEP)}
    assert {f"{DEEP}/file/__{path.removeprefix('file://')}" for path in needs} <= deep.keys()
    assert done.bytes == sum(map(len, deep.values())) == deep_bytes(lake) and done.files == len(
        deep
    )
    assert pruned(lake, 2.5)[0].done
    assert {path: lake.store.read(path) for path in lake.paths(DEEP)} == deep


def deep_bytes(lake: Lake) -> int:
    return sum(copy.deep_bytes for copy in lake.control.archived.all())


def test_what_is_deep_already_is_not_copied_again_and_what_came_since_is() -> None:
    lake, table = archived(**{"meltline.deep": "true"})
    first, before = deepened(lake), ids(lake)
    assert deepened(lake).snapshots == 0 < first.files
    for day in (12, 13):
        lake.on(day)
        table.overwrite(f"t{day}")
    lake.on(24).run(services=services(lake))
    again = deepened(lake)
    assert again.snapshots == len(ids(lake)) - len(before) > 0
    stored = sum(stored.bytes for stored in lake.store.list(DEEP))
    assert again.errors == [] and first.bytes + again.bytes == stored == deep_bytes(lake)


def test_a_file_that_the_permanent_store_has_lost_forbids_to_prune() -> None:
    lake, _ = archived(**{"meltline.deep": "true"})
    deepened(lake)
    lake.on(30)
    (lost,) = [path for path in lake.paths(DEEP) if path.endswith("/t0.parquet")]
    lake.store.delete([lost])
    assert "t0.parquet" in refused(lake, GateNotPassed)


def test_a_copy_that_is_not_whole_does_not_go_deep() -> None:
    lake, _ = archived(**{"meltline.deep": "true"})
    (lost,) = [path for path in cold_files(lake) if path.endswith("/t1.parquet")]
    lake.store.delete([lost])
    done = deepened(lake)
    assert len(done.errors) == 2 and all("not whole" in error for error in done.errors)
    missing = [copy.snapshot_id for copy in lake.control.archived.all() if copy.deep_at is None]
    assert missing == ids(lake)[1:3] and done.snapshots == len(ids(lake)) - 2
    lake.on(60)
    assert "planned_not_deep" in refused(lake, GateNotPassed)


def test_without_a_policy_only_a_table_that_is_named_goes_deep() -> None:
    lake, _ = archived()
    assert deepen(ports(lake)) == []
    assert deepened(lake, NAME).snapshots == len(ids(lake))
    with pytest.raises(TableNotFound):
        deepen(ports(lake), TableName.parse("lake.air.never"))
    with pytest.raises(ColdMissing):
        deepen(ports(lake, deep=None))


# --- and back -----------------------------------------------------------------------------------


def recalled(lake: Lake) -> Recalled:
    (done,) = recall(ports(lake), NAME)
    return done


def test_what_cold_has_lost_comes_back_to_the_path_that_it_had() -> None:
    # AR-29
    lake, _ = archived(**{"meltline.deep": "true"})
    deepened(lake)
    before = {path: lake.store.read(path) for path in needed(lake)}
    lake.store.delete(sorted(before))
    done = recalled(lake)
    assert done.errors == [] and done.files == len(before)
    assert done.bytes == sum(map(len, before.values()))
    assert {path: lake.store.read(path) for path in before} == before
    again = recalled(lake)
    assert (again.files, again.errors) == (0, [])
    assert [e.action for e in lake.control.audit.entries()].count("cold recall") == 1


def test_what_neither_has_is_named_and_the_rest_comes_back() -> None:
    lake, _ = archived(**{"meltline.deep": "true"})
    deepened(lake)
    lost = [path for path in needed(lake) if path.endswith((".parquet", ".avro"))]
    lake.store.delete(lost)
    (nowhere,) = [path for path in lake.paths(DEEP) if path.endswith("/t1.parquet")]
    lake.store.delete([nowhere])
    done = recalled(lake)
    assert done.files > 0 and len(done.errors) == 2
    assert all("t1.parquet is not there" in error for error in done.errors)


def test_where_nothing_is_deep_there_is_nothing_to_recall() -> None:
    lake, _ = archived()
    with pytest.raises(TableNotFound, match="permanent store"):
        recall(ports(lake), NAME)
