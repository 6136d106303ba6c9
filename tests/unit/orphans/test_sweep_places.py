"""Where a sweep may take anything, by owner and by name."""

import json
from dataclasses import replace

import pytest

from meltline.domain.iceberg.files import DepartureState
from tests.lake.lake import DAY, T0, WAREHOUSE, Lake, Table
from tests.lake.swept import FIRST, SECOND, Swept, a_lake

# --- whose place it is ---------------------------------------------------------------------------


def test_a_sibling_whose_name_only_begins_alike_is_not_touched() -> None:
    """Iceberg #16493: `tbl` also matched `tbl_backup/...`."""
    swept = Swept()
    orphan = swept.leave("orphan")
    for path in ("t_backup/data/f", "t2/f", "tbl", "other/f"):
        swept.leave(f"{WAREHOUSE}/air/{path}")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}


def test_tables_nest_and_each_orphan_departs_with_the_innermost_owner() -> None:
    swept = Swept()
    inner = swept.lake.table("inner", location=f"{swept.table.location}/data/inner")
    inner.append("x")
    inner.configure(**{"meltline.failsafe-days": "20"})
    swept.lake.run()
    mine, its = swept.leave("orphan"), swept.leave(inner.data("orphan"))
    swept.sweep_twice()
    found = swept.lake.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
    assert {d.path: d.owner for d in found} == {mine: swept.table.uuid, its: inner.uuid}
    assert swept.lake.waiting()[its] == T0 + (SECOND + 20) * DAY


def test_a_nested_table_that_is_not_managed_keeps_its_orphans() -> None:
    swept = Swept()
    off = {"meltline.enabled": "false"}
    inner = swept.lake.table("in", location=f"{swept.table.location}/data/in", properties=off)
    inner.append("x")
    swept.lake.run()
    swept.leave(inner.data("orphan"))
    assert swept.sweep_twice().exit_code == 0
    assert swept.waiting() == set()


def test_a_location_that_two_tables_share_is_swept_against_both() -> None:
    swept = Swept()
    other = swept.lake.table("other", location=swept.table.location)
    other.append("b")
    other.configure(**{"meltline.failsafe-days": "12"})
    swept.lake.run()
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    assert swept.lake.waiting() == {orphan: T0 + (SECOND + 12) * DAY}
    swept.lake.on(SECOND + 12).run()
    assert orphan not in swept.lake.paths()


@pytest.mark.parametrize(
    "properties",
    [{"meltline.enabled": "false"}, {"meltline.hold": "audit"}],
    ids=["detached", "held"],
)
def test_a_location_shared_with_a_table_that_is_left_alone_is_left_alone(
    properties: dict[str, str],
) -> None:
    swept = Swept()
    other = swept.lake.table("other", location=swept.table.location, properties=properties)
    other.append("b")
    swept.lake.run()
    swept.leave("orphan")
    assert swept.sweep_twice().exit_code == 0
    assert swept.waiting() == set()


def test_a_hold_on_a_table_that_shares_files_keeps_orphans_too() -> None:
    swept = Swept()
    copy = swept.lake.clone(swept.table, "lake.air.copy")
    swept.lake.run()
    orphan = swept.leave("orphan")
    copy.configure(**{"meltline.hold": "audit"})
    swept.sweep_twice()
    assert swept.waiting() == set()
    copy.edit(lambda document: document["properties"].clear())
    swept.sweep(SECOND)
    swept.sweep(SECOND + 7)
    assert swept.waiting() == {orphan}


def test_the_place_of_a_dropped_table_is_not_swept() -> None:
    swept = Swept()
    swept.leave("orphan")
    swept.table.drop()
    swept.sweep(FIRST)
    summary = swept.sweep(SECOND)
    assert (summary.exit_code, summary.as_json()["sweep"]["files"]) == (0, 0)
    assert swept.waiting() == set()


def dropped_and_made_again(swept: Swept) -> Table:
    """A table whose place another one had before; both were observed."""
    old = swept.table
    old.drop()
    new = swept.lake.on(2).table("t")
    new.append("new")
    swept.lake.run()
    return new


def test_where_a_dropped_table_lay_too_its_files_stay_and_orphans_go() -> None:
    swept = Swept()
    new = dropped_and_made_again(swept)
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}
    assert new.data("a") in swept.lake.paths()


def test_what_a_dropped_table_committed_after_it_was_last_looked_at_is_no_orphan() -> None:
    swept = Swept()
    swept.table.append("unseen")
    unseen = swept.table.data("unseen")
    dropped_and_made_again(swept)
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    assert swept.waiting() == {orphan} and unseen in swept.lake.paths()


def test_where_nobody_can_tell_what_a_dropped_table_committed_last_nothing_departs() -> None:
    swept = Swept()
    base = swept.table.metadata_location
    swept.table.append("unseen")
    last = swept.table.metadata_location
    twin = {**swept.table.document, "metadata-log": [{"timestamp-ms": 0, "metadata-file": base}]}
    swept.lake.store.write(
        last.replace(".metadata.json", "b.metadata.json"), json.dumps(twin).encode()
    )
    dropped_and_made_again(swept)
    swept.leave("orphan")
    summary = swept.sweep_twice()
    assert swept.waiting() == set()
    assert summary.exit_code == 4
    assert last.removesuffix(".metadata.json") in summary.tables["lake.air.t"].skipped


def test_a_table_that_no_catalog_has_inside_of_one_that_is_swept_is_left_whole() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    for name in ("metadata/v1.metadata.json", "data/f.parquet", "metadata/m0.avro"):
        swept.leave(f"{swept.table.location}/hadoop/{name}")
    summary = swept.sweep_twice()
    assert swept.waiting() == {orphan}
    (line,) = summary.as_json()["tables"]
    assert summary.exit_code == 4
    assert "a metadata file that cannot be read uses file:///w/air/t/hadoop/" in line["skipped"]


def test_a_table_that_holds_the_whole_warehouse_is_not_swept_and_that_is_said() -> None:
    swept = Swept()
    swept.lake.table("root", location=WAREHOUSE).append(f"{WAREHOUSE}/data/x")
    swept.lake.run()
    swept.leave(f"{WAREHOUSE}/elsewhere/f")
    orphan = swept.leave("orphan")
    summary = swept.sweep_twice()
    assert swept.waiting() == {orphan}
    assert "whole warehouse" in summary.tables["lake.air.root"].skipped


def test_two_registrations_of_a_table_both_keep_their_files() -> None:
    swept = Swept()
    twin = swept.lake.register("lake.air.twin", swept.table.metadata_location)
    swept.lake.on(1)
    twin.append("of the twin")
    swept.table.append("of the table")
    swept.lake.run()
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}


def test_a_registration_in_a_catalog_that_is_only_observed_keeps_orphans_too() -> None:
    swept = Swept(a_lake(other_catalogs=("partner",)))
    swept.lake.register("partner.air.t", swept.table.metadata_location)
    swept.lake.run()
    swept.leave("orphan")
    swept.sweep_twice()
    assert swept.waiting() == set()


def test_only_the_selected_tables_are_swept() -> None:
    swept = Swept()
    other = swept.lake.table("other")
    other.append("b")
    swept.lake.run()
    swept.leave(other.data("orphan"))
    mine = swept.leave("orphan")
    document = swept.sweep_twice(tables=("lake.air.t",)).as_json()["sweep"]
    assert swept.waiting() == {mine}
    assert document["files"] == len(list(swept.lake.store.list(swept.table.location)))


def test_where_tables_share_a_location_an_orphan_departs_with_one_that_was_selected() -> None:
    swept = Swept()
    other = swept.lake.table("other", location=swept.table.location)
    other.append("b")
    swept.lake.run()
    swept.leave("orphan")
    swept.sweep_twice(tables=("lake.air.other",))
    (departure,) = swept.lake.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
    assert departure.owner == other.uuid


def test_the_ledgers_own_tables_are_never_swept() -> None:
    swept = Swept()
    own = swept.lake.table("lake.meltline.entries")
    own.append("rows")
    swept.lake.run()
    swept.leave(own.data("orphan"))
    swept.sweep_twice()
    assert swept.waiting() == set()


def test_meltlines_own_files_and_the_catalogs_database_stay_wherever_they_lie() -> None:
    swept = Swept()
    at = swept.table.location.removeprefix("file://")
    own = [f"{at}/{name}" for name in ("control.db", "control.db-wal", "catalog.db",
           "meltline.yaml", "meltline-docs/gates-1.html")]  # fmt: skip
    for path in own:
        swept.leave(f"file://{path}")
    services = swept.services()
    hot = replace(services.config.catalogs["lake"], uri=f"sqlite:///{own[2]}")
    config = replace(
        services.config, path=type(services.config.path)(own[3]), catalogs={"lake": hot},
        control=f"sqlite:///{own[0]}?timeout=3",
    )  # fmt: skip
    services = replace(services, config=config)
    orphan = swept.leave("orphan")
    swept.sweep(FIRST, services)
    said = swept.sweep(SECOND, services).as_json()["sweep"]
    assert swept.waiting() == {orphan}
    assert said["odd_files"] == len(own)


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "data/.hidden",
        "data/_SUCCESS",
        "data/.trash/f.parquet",
        "_staging/f.parquet",
        "data/.f.parquet.crc",
        "data/.f.tmp.crc",
        "metadata/version-hint.text",
        ".meltline-sandbox",
        ".meltline-clock",
        "data/../data/f",
        "data/two\nlines",
    ],
)
def test_hidden_files_hints_and_odd_names_stay(name: str) -> None:
    swept = Swept()
    swept.leave(f"{swept.table.location}/{name}")
    swept.sweep_twice()
    assert swept.waiting() == set()


@pytest.mark.parametrize(
    "name",
    [
        "data/_temporary/0/task_1/part-0.parquet",
        "metadata/.00003.metadata.json.0a1b.tmp",
        "data/_day=3/f.parquet",
        "data/a b/x#y.parquet",
        "data/a%20b/100%.parquet",
    ],
)
def test_temporary_files_that_were_left_and_partitions_of_odd_columns_are_orphans(
    name: str,
) -> None:
    swept = Swept()
    path = swept.leave(f"{swept.table.location}/{name}")
    swept.sweep_twice()
    assert swept.waiting() == {path}
    swept.lake.on(SECOND + 7).run()
    assert path not in swept.lake.paths()


def test_a_checksum_file_goes_with_its_file() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    crc = swept.leave(f"{swept.table.location}/data/.orphan.parquet.crc")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}
    swept.lake.on(SECOND + 7).run()
    assert not {orphan, crc} & swept.lake.paths()


def test_two_names_that_may_mean_one_file_stay_both() -> None:
    # AR-10
    swept = Swept()
    swept.leave("a b")
    swept.leave("a%20b")
    said = swept.sweep_twice().as_json()["sweep"]
    assert (swept.waiting(), said["odd_files"]) == (set(), 2)


class WideLake(Lake):
    """A lake with files in buckets, and some that are reached by a link."""

    def paths(self, under: str = "") -> set[str]:
        roots = (under,) if under else (WAREHOUSE, "s3://lake", "s3://alias", "file:///mnt")
        return {stored.path for root in roots for stored in self.store.list(root)}


def test_a_file_under_another_authority_holds_its_whole_table_back() -> None:
    """Iceberg #4194, #4346: another prefix made every file an orphan."""
    lake = WideLake(storage_roots=("s3://lake", "s3://alias"))
    table = lake.on(0).table("u", location="s3://lake/u")
    table.append("s3://alias/u/data/needed.parquet", "plain")
    lake.run()
    swept = Swept(lake)
    for path in ("s3://lake/u/data/needed.parquet", "s3://lake/u/data/orphan.parquet"):
        swept.leave(path)
    summary = swept.sweep_twice()
    assert swept.waiting() == set()
    assert summary.exit_code == 4
    assert "s3://alias/u/data/needed.parquet" in summary.tables["lake.air.u"].skipped


def test_other_spellings_of_scheme_authority_and_slashes_are_the_same_file() -> None:
    lake = WideLake(storage_roots=("s3://lake", "s3://alias"))
    table = lake.on(0).table("u", location="s3a://lake/u")
    table.append("s3n://lake/u/data/x.parquet", "s3://lake/u/data/y%20z.parquet")
    lake.run()
    swept = Swept(lake)
    for name in ("x.parquet", "y z.parquet", "y%20z.parquet"):
        swept.leave(f"s3://lake/u/data/{name}")
    orphan = swept.leave("s3://lake/u/data/orphan.parquet")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}


def test_a_file_that_a_table_may_know_by_way_of_a_link_stays() -> None:
    swept = Swept(WideLake())
    swept.table.append("file:///mnt/w/air/t/data/linked.parquet")
    swept.lake.run()
    swept.leave("linked")
    orphan = swept.leave("orphan")
    said = swept.sweep_twice().as_json()["sweep"]
    assert swept.waiting() == {orphan}
    assert list(said["odd"]) == [swept.table.data("linked")]


def test_manifests_of_a_flink_job_and_metadata_that_the_engine_deletes_stay() -> None:
    swept = Swept()
    swept.table.edit(lambda d: d["snapshots"][0]["summary"].update({"flink.job-id": "4af1"}))
    swept.table.configure(**{"write.metadata.delete-after-commit.enabled": "true"})
    for name in ("4af1-1-00000-0-3-00001.avro", "00009-x.metadata.json"):
        swept.leave(f"{swept.table.location}/metadata/{name}")
    said = swept.sweep_twice().as_json()["sweep"]
    assert (swept.waiting(), said["odd_files"]) == (set(), 2)
