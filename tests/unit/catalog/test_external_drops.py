"""Tables that left without a drop of ours, and what is noticed of them."""

import json
from dataclasses import dataclass, replace

import pytest

from meltline.app.catalog.resolve import find_object
from meltline.app.doctor.doctor import examine
from meltline.app.drop.external_drops import gone_tables
from meltline.app.drop.history import Listed, history
from meltline.app.retention.policies import change_policy
from meltline.domain.errors import NotDropped, StoreRefused
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import DROPPED_NAMESPACE
from meltline.domain.retention.policy import RETENTION
from meltline.ports import FolderReader, Level
from tests.lake.copies import earlier, fresh_lake, set_back
from tests.lake.lake import DAY, T0, Lake, Table
from tests.unit.drop.test_letting_go import MS, back, dropped, dropped_names, names, own, written


def test_a_table_that_an_engine_drops_is_noticed_kept_and_can_come_back() -> None:
    lake, table = written()
    before = table.document
    table.drop()
    lake.on(4)
    with pytest.raises(NotDropped):
        back(lake)
    assert lake.run().exit_code == 0
    (row,) = history(lake.services(), Listed.TABLES, within="lake.air")[0]
    assert (row.name, row.dropped_on) == ("t", T0 + 4 * DAY)
    done = back(lake)
    assert done.drop.noticed and done.tables[0].missing == ()
    assert table.document["snapshots"] == before["snapshots"]
    assert table.document["properties"] == before["properties"]
    assert table.uuid == before["table-uuid"]


def test_its_last_state_is_found_although_nobody_had_observed_it() -> None:
    lake, table = written()
    late = table.append("late")
    lake.clock.moment += MS
    table.drop()
    lake.run()
    assert back(lake).tables[0].snapshot_id == late


def test_a_rename_is_no_drop() -> None:
    lake, table = written()
    lake.catalogs["lake"].register(TableName.parse("lake.air.u"), table.catalog.drop(table.name))
    lake.run()
    assert names(lake) == {"lake.air.u"} and gone_tables(lake.services()) == []


def test_a_noticed_drop_is_let_go_when_its_time_is_up() -> None:
    lake, table = written()
    table.drop()
    for day in (4, 12, 20, 21, 29):
        lake.on(day).run()
    assert own(lake) == set() and names(lake) == set()


def test_it_keeps_the_retention_that_it_worked_with_also_when_its_schema_has_gone() -> None:
    lake, table = written()
    services = lake.services()
    change_policy(services, find_object(services, "lake.air"), {RETENTION: "60"}, dry_run=False)
    lake.run()
    table.drop()
    lake.catalogs["lake"]._namespaces.pop(("air",))
    lake.on(4).run()
    lake.on(60).run()
    assert back(lake).drop.retention_days == 60


def test_files_that_the_engine_had_deleted_are_named_by_the_undrop() -> None:
    lake, table = written()
    gone = table.data("f2")
    content = lake.store.read(gone)
    table.drop()
    lake.store.delete([gone])
    with pytest.raises(AssertionError):
        lake.on(4).run()  # the lake's own check: a needed file is missing
    assert back(lake).tables[0].missing == (gone,)
    lake.store.write(gone, content)


def test_of_two_metadata_files_that_may_be_the_last_both_are_kept_and_a_person_is_asked() -> None:
    lake, table = written()
    base = table.metadata_location
    content = lake.document(base)
    for unique in ("x", "y"):
        content["metadata-log"] = [
            {"timestamp-ms": content["last-updated-ms"], "metadata-file": base}
        ]
        number = int(base.rpartition("/")[2].partition("-")[0]) + 1
        path = f"{table.location}/metadata/{number:05d}-{unique}.metadata.json"
        lake.store.write(path, json.dumps(content).encode())
    table.drop()
    files = lake.paths()
    for day in (4, 20, 40):
        lake.on(day).run()
    assert files <= lake.paths() and names(lake) == set()
    found = [f for f in examine(lake.services()) if f.code == "table_gone"]
    assert "more than one" in found[0].message
    with pytest.raises(NotDropped):
        back(lake)


def test_a_table_that_was_set_back_is_kept_in_its_last_state_and_not_in_one_that_it_left() -> None:
    lake, table = written(fresh_lake())
    last = table.snapshots
    for name in ("one", "two"):
        table.tag(name, table.head)
    lake.run()
    table.append("unseen")
    table = set_back(table, earlier(table, 3))
    lake.on(4).run()  # the metadata files between the two depart
    table.drop()
    lake.on(5).run()
    (kept,) = dropped_names(lake)
    assert Table(lake, kept).snapshots == last


def test_a_late_commit_of_a_table_whose_log_was_cut_is_still_its_last_state() -> None:
    lake, table = written(fresh_lake())
    first = table.document["metadata-log"][0]["metadata-file"]
    table.edit(lambda document: document.update({"metadata-log": document["metadata-log"][1:]}))
    table.edit(lambda document: document.update({"metadata-log": document["metadata-log"][1:]}))
    lake.on(4).run()
    assert first in lake.waiting()
    late = table.append("late")
    lake.clock.moment += MS
    table.drop()
    lake.run()
    assert back(lake).tables[0].snapshot_id == late


def test_what_another_table_lets_go_in_the_folder_of_one_that_left_unnoticed_goes_with_it() -> None:
    lake, table = written(Lake(other_catalogs=("theirs",)))
    shared, second = table.data("f2"), lake.table("lake.air.second")
    second.append(shared)
    table.overwrite("last")
    lake.run()
    lake.on(12).run()  # only the second table needs it now
    second.overwrite("own")
    table.drop()
    lake.catalogs["theirs"].unlistable = "no answer"
    lake.on(24).run()
    assert shared in lake.waiting()
    lake.on(40).run()
    assert shared in lake.paths()
    lake.catalogs["theirs"].unlistable = ""
    lake.on(41).run()
    lake.on(42).run()
    assert shared not in lake.paths()


def test_where_the_chain_is_broken_everything_is_kept_and_a_person_is_asked() -> None:
    lake, table = written()
    late = table.document
    late["metadata-log"] = []
    number = int(table.metadata_location.rpartition("/")[2].partition("-")[0]) + 2
    path = f"{table.location}/metadata/{number:05d}-z.metadata.json"
    lake.store.write(path, json.dumps(late).encode())
    table.drop()
    lake.on(30).run()
    assert names(lake) == set() and len(gone_tables(lake.services())) == 1
    assert gone_tables(lake.services())[0].state is None


def test_a_purged_table_is_told_of_and_nothing_is_registered() -> None:
    lake, table = written()
    lists = [table.manifest_list(sid) for sid in table.snapshots]
    table.drop()
    lake.store.delete(lists)
    lake.on(4).run()
    assert names(lake) == set()
    found = [f for f in examine(lake.services()) if f.code == "table_gone"]
    assert "deleted files" in found[0].message


def test_while_a_catalog_cannot_be_listed_nothing_counts_as_dropped() -> None:
    lake, table = written(Lake(other_catalogs=("theirs",)))
    table.drop()
    lake.catalogs["theirs"].unlistable = "no answer"
    lake.on(4).run()
    assert names(lake) == set()
    lake.catalogs["theirs"].unlistable = ""
    lake.run()
    assert len(dropped_names(lake)) == 1


def test_what_somebody_takes_out_of_the_dropped_ones_is_put_back_with_its_facts() -> None:
    lake, _ = dropped()
    lake.run()
    (name,) = dropped_names(lake)
    lake.catalogs["lake"].drop(name)
    lake.on(6).run()
    assert dropped_names(lake) == [name]
    assert back(lake).drop.at == T0 + 3 * DAY


def test_a_table_among_the_dropped_ones_that_does_not_say_what_it_was_is_kept_for_ever() -> None:
    lake = Lake()
    table = lake.table(f"lake.{DROPPED_NAMESPACE}.stray")
    for day in range(3):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(60).run()
    assert len(table.snapshots) == 3
    assert "dropped_without_facts" in [f.code for f in examine(lake.services())]


# --- purged by the engine that dropped it --------------------------------------------------------


def purged(lake: Lake, table: Table, *left: str) -> None:
    """An engine drops a table and deletes its files, but for some."""
    location = table.location
    table.drop()
    lake.store.delete([p for p in lake.paths() if p.startswith(location) and p not in left])
    for day in (4, 12, 20):
        lake.on(day).run()


def asked(lake: Lake) -> list[str]:
    return [f.message for f in examine(lake.services()) if f.code == "table_gone"]


def test_nothing_is_asked_about_a_table_that_was_purged_to_its_last_file() -> None:
    lake, table = written()
    purged(lake, table)
    assert asked(lake) == []
    assert gone_tables(lake.services()) == []


def test_a_table_of_which_one_file_is_left_is_asked_about() -> None:
    lake, table = written()
    purged(lake, table, table.live()[0].path)
    (message,) = asked(lake)
    assert "no metadata file leads back" in message


def test_a_table_that_once_wrote_elsewhere_is_asked_about_while_a_file_is_left_there() -> None:
    lake, table = written()
    table.configure(write__data__path=f"{table.location}_data")
    lake.on(3.5).run()
    stray = f"{table.location}_data/x.parquet"
    lake.store.write(stray, b"rows")
    purged(lake, table, stray)
    assert len(asked(lake)) == 1
    lake.store.delete([stray])
    assert asked(lake) == []


@dataclass(frozen=True)
class ShutFolders:
    """A store that lists nothing but folders of metadata."""

    folders: FolderReader

    def level(self, folder: str) -> Level:
        if folder.rstrip("/").endswith("metadata"):
            return self.folders.level(folder)
        raise StoreRefused("it cannot be listed", object=folder)


def test_a_folder_that_cannot_be_listed_may_have_files() -> None:
    lake, table = written()
    purged(lake, table)
    services = lake.services()
    folders = ShutFolders(services.folders)
    (absent,) = gone_tables(replace(services, folders=folders))
    assert absent.question
