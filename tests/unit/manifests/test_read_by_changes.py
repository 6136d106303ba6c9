"""Whether snapshots are known by their manifests or by what they changed makes no difference."""

from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meltline.app.services import RunContext
from meltline.app.storage.explain import explain_path
from meltline.app.storage.file_status import FileStatus, standing_now
from meltline.app.storage.report import StoredBytes
from meltline.domain.iceberg.locations import location_key
from tests.lake.by_changes import ByChanges
from tests.lake.lake import DAY, T0, Lake
from tests.lives.random_engines import OTHERS, REFS, WRITES, Engines
from tests.lives.watched_lake import WatchedLake

ACTION = st.sampled_from([*WRITES, *WRITES, *REFS, *OTHERS, "clone"])
ACTIONS = st.tuples(ACTION, st.integers(0, 3), st.integers(0, 99))


def facts(standing: FileStatus) -> dict[str, tuple[object, ...]]:
    return {
        at: (f.bytes, f.owner, f.stage, f.tables, f.snapshots)
        for book in (standing.files, standing.foreign)
        for at, f in book.items()
    }


def services(lake: Lake, tables: set[str]) -> RunContext:
    """The lake's, with a reader that knows these tables by changes."""
    return lake.services(reader=ByChanges(lake.file_tables, tables))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(ACTIONS, max_size=4), min_size=2, max_size=7), st.data())
def test_totals_of_any_day_and_every_files_standing_are_the_same(
    days: list[list[tuple[str, int, int]]], data: st.DataObject
) -> None:
    lake = WatchedLake(other_catalogs=("theirs",))
    engines = Engines(lake)
    engines.create(1)
    engines.create(2)
    for actions in days:
        lake.check()
        lake.clock.moment += 4 * DAY
        for action in actions:
            engines.act(*action)
            lake.check()
        lake.run()
    uuids = sorted({snapshot.key.table_uuid for snapshot in lake.file_tables.contents().snapshots})
    some = data.draw(st.sets(st.sampled_from(uuids))) if uuids else set[str]()
    wholly, by_changes = lake.services(), services(lake, some)
    standing = facts(standing_now(wholly))
    assert facts(standing_now(by_changes)) == standing
    paths = [at for at in standing if at in {location_key(path) for path in lake.paths()}]
    for path in data.draw(st.lists(st.sampled_from(paths), max_size=3)) if paths else ():
        assert explain_path(by_changes, path) == explain_path(wholly, path)
    whole, changed = StoredBytes(wholly), StoredBytes(by_changes)
    for day in (None, data.draw(st.integers(0, 4 * len(days)))):
        moment = None if day is None else T0 + timedelta(days=day)
        assert changed.at(moment, paths) == whole.at(moment, paths)


def test_a_file_is_explained_by_the_snapshots_that_its_span_reaches() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    ids = [table.append("a"), table.append("b"), table.overwrite("c")]
    lake.run()
    by_changes = services(lake, {table.uuid})
    (span,) = by_changes.reader.spans(table.data("b"))
    assert (span.since, span.until) == (6, 9)
    named = {file: explain_path(by_changes, table.data(file)).referenced_by for file in "abc"}
    first, second, third = (f"lake.air.t@{one}" for one in ids)
    assert {file: set(of) for file, of in named.items()} == {
        "a": {first, second}, "b": {second}, "c": {third},
    }  # fmt: skip
