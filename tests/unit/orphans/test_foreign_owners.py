"""What lies in a table's folder may be others': no catalog shows them, and nothing of them goes."""

import gzip
import json
from dataclasses import dataclass
from typing import Any

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.orphans.allowed_owners import allow, disallow
from meltline.app.ownership.foreign_owners import NamedFiles
from meltline.app.purge.purge import apply_purges
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.domain.deletion.foreign_owners import AllowedOwner
from meltline.domain.errors import CatalogUnlistable, UsageInvalid
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import format_instant
from meltline.ports import Catalog, Level, OtherOwner
from tests.lake.lake import DAY, T0, Table
from tests.lake.swept import FIRST, SECOND, Swept, a_lake

ROOT = "file:///w/air/t"
VIEW_UUID = "7f000000-0000-4000-8000-00000000aaaa"


def beside_a_stranger(**properties: str) -> tuple[Swept, Table]:
    """A table, and one of a catalog that is not listed, with the same location (O2)."""
    swept = Swept(a_lake(unlisted=("dark",)))
    stranger = swept.lake.table("dark.air.other", location=ROOT, properties=properties)
    stranger.append("theirs")
    return swept, stranger


def a_view_at(swept: Swept, location: str = ROOT) -> str:
    """The metadata file of a view; returns its path."""
    document = {"view-uuid": VIEW_UUID, "format-version": 1, "location": location}
    path = f"{location}/metadata/00000-v.gz.metadata.json"
    return swept.leave(path, gzip.compress(json.dumps(document).encode()))


@dataclass(frozen=True)
class WithoutViews:
    """A catalog whose tables can be listed, and whose views cannot."""

    catalog: Catalog

    def other_owners(self) -> list[OtherOwner]:
        raise CatalogUnlistable("no views", object="lake", expected="", found="503", next="")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)


def files_of(swept: Swept, *days: float) -> int:
    """Runs on these days; returns how many files they purged."""
    runs = [swept.lake.on(day).run() for day in days]
    return sum(line.files_purged for run in runs for line in run.tables.values())


def stops(swept: Swept, sign: str) -> None:
    """Two sweeps leave everything as it is, say why, and runs go on."""
    before = swept.lake.paths()
    summary = swept.sweep_twice()
    assert swept.waiting() == set()
    assert summary.exit_code == 4
    assert sign in summary.as_json()["tables"][0]["skipped"]
    files_of(swept, SECOND + 8, SECOND + 30)
    assert before <= swept.lake.paths()
    swept.lake.check_nothing_is_missing()


# --- a table that no catalog shows ----------------------------------------------------------------


def test_a_table_of_an_unlisted_catalog_in_the_same_folder_stops_the_folder() -> None:
    swept, stranger = beside_a_stranger()
    swept.leave("orphan")
    stops(swept, f"a table that no catalog shows uses {ROOT}/: ")
    assert stranger.uuid in str(swept.lake.control.owners.signs())


def test_what_is_held_back_is_reported_with_its_bytes_and_the_command() -> None:
    swept, stranger = beside_a_stranger()
    orphan = swept.leave("orphan", b"123456789")
    swept.sweep_twice()
    (row,) = {row.bytes for row in swept.lake.control.places.withheld()}
    assert row > 9
    (found,) = [f for f in examine(swept.lake.services()) if f.code == "foreign_owner"]
    assert found.object == f"{ROOT}/"
    assert f"`meltline sweep allow {stranger.uuid} --reason TEXT`" in found.fix
    assert orphan in swept.lake.paths()


def test_a_person_allows_an_owner_that_is_gone_and_takes_that_back() -> None:
    swept, stranger = beside_a_stranger()
    uuid = stranger.uuid
    del swept.lake.catalogs["dark"]
    orphan = swept.leave("orphan")
    swept.sweep_twice()
    with pytest.raises(UsageInvalid, match="needs a reason"):
        allow(swept.lake.services(), uuid, "")
    with pytest.raises(UsageInvalid, match="no foreign owner"):
        allow(swept.lake.services(), "another", "gone")
    allow(swept.lake.services(), uuid, "that catalog was switched off")
    (found,) = [f for f in examine(swept.lake.services()) if f.code == "owner_allowed"]
    assert "that catalog was switched off" in found.message
    assert found.fix == f"`meltline sweep disallow {uuid}` takes the word back"
    swept.sweep(SECOND + 1)
    summary = swept.sweep(SECOND + 8)
    assert orphan in swept.waiting() and summary.exit_code == 0
    assert files_of(swept, SECOND + 15.5) > 0
    assert disallow(swept.lake.services(), uuid)
    assert not disallow(swept.lake.services(), uuid)
    assert all(f.code != "owner_allowed" for f in examine(swept.lake.services()))


@pytest.mark.parametrize("name", ["v1.metadata.json", "v7.gz.metadata.json", "x.metadata.json.gz"])
def test_metadata_of_hadoop_tables_and_compressed_ones_are_signs(name: str) -> None:
    swept, stranger = beside_a_stranger()
    content = swept.lake.store.read(stranger.metadata_location)
    content = gzip.compress(content) if "gz" in name else content
    del swept.lake.catalogs["dark"]
    swept.lake.store.delete([p for p in swept.lake.paths() if "/00000-m" in p and "t/" not in p])
    swept.leave(f"{ROOT}/metadata/{name}", content)
    swept.leave(f"{ROOT}/metadata/version-hint.text", b"1")
    stops(swept, "a table that no catalog shows")


def test_an_unreadable_metadata_file_stops_the_folder() -> None:
    swept = Swept()
    swept.leave(f"{ROOT}/metadata/00077-torn.metadata.json", b'{"format-version": 2, "table')
    stops(swept, "a metadata file that cannot be read")


def test_an_owner_is_there_since_it_was_first_found_whatever_it_writes_since() -> None:
    swept, stranger = beside_a_stranger()
    swept.sweep(FIRST)
    stranger.append("more of theirs")
    swept.sweep(SECOND)
    (warning,) = [f for f in examine(swept.lake.services()) if f.code == "foreign_owner"]
    assert f"since {format_instant(T0 + FIRST * DAY)}" in warning.message
    assert stranger.metadata_location in warning.message


def test_a_leaked_metadata_file_of_the_table_is_an_orphan_like_any_other() -> None:
    swept = Swept()
    leaked = swept.leave(f"{ROOT}/metadata/00077-leaked.metadata.json", swept.ours)
    summary = swept.sweep_twice()
    assert (swept.waiting(), summary.exit_code) == ({leaked}, 0)


# --- views ----------------------------------------------------------------------------------------


def test_a_view_of_an_unlisted_catalog_stops_the_folder() -> None:
    swept = Swept()
    a_view_at(swept)
    stops(swept, "a view that no catalog shows")


def test_a_listed_view_in_the_folder_of_a_table_is_kept_and_the_folder_goes_on() -> None:
    swept = Swept()
    view, orphan = a_view_at(swept), swept.leave("orphan")
    name = TableName.parse("lake.air.sv")
    swept.lake.catalogs["lake"].add_owner(OtherOwner(name, "view", metadata_location=view))
    summary = swept.sweep_twice()
    assert (swept.waiting(), summary.exit_code) == ({orphan}, 0)
    assert summary.as_json()["sweep"]["odd"][view] == "view lake.air.sv lies there"
    assert files_of(swept, SECOND + 8) == 1
    assert view in swept.lake.paths()


def test_a_listed_table_of_another_format_in_a_folder_below_keeps_that_folder_alone() -> None:
    swept = Swept()
    orphan, theirs = swept.leave("orphan"), swept.leave(f"{ROOT}/parquet/f.parquet")
    name = TableName.parse("lake.air.plain")
    owner = OtherOwner(name, "parquet table", location=f"{ROOT}/parquet")
    swept.lake.catalogs["lake"].add_owner(owner)
    summary = swept.sweep_twice()
    assert (swept.waiting(), summary.exit_code) == ({orphan}, 0)
    assert theirs in swept.lake.paths()


def test_a_listed_table_of_another_format_in_the_same_folder_stops_it_and_its_named_files() -> None:
    swept = Swept()
    swept.leave("orphan")
    swept.table.overwrite("newer")
    owner = OtherOwner(TableName.parse("lake.air.backup"), "hive table", location=ROOT)
    swept.lake.catalogs["lake"].add_owner(owner)
    stops(swept, "a table of another format")


def test_while_the_views_of_a_catalog_cannot_be_listed_nothing_departs() -> None:
    swept = Swept()
    swept.leave("orphan")
    lake = swept.services().catalogs["lake"]
    services = swept.services(catalogs={"lake": WithoutViews(lake)})
    swept.sweep(FIRST, services)
    summary = swept.sweep(SECOND, services)
    assert (swept.waiting(), summary.exit_code) == (set(), 4)
    assert summary.notes == ["nothing departs: no views: 503"]


# --- other formats --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "sign"),
    [
        ("_delta_log/00000000000000000000.json", "a Delta table"),
        (".hoodie/hoodie.properties", "a Hudi table"),
        ("snapshot/snapshot-1", "a Paimon table"),
        ("schema/schema-0", "a Paimon table"),
        ("data/0af1.lance", "a Lance dataset"),
        ("_versions/1.manifest", "a Lance dataset"),
    ],
)
def test_the_mark_of_another_format_stops_the_folder(file: str, sign: str) -> None:
    swept = Swept()
    swept.leave("orphan")
    swept.leave(f"{ROOT}/{file}")
    stops(swept, sign)


def test_a_mark_in_a_folder_below_stops_that_folder_alone() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    theirs = [swept.leave(f"{ROOT}/delta/{name}") for name in ("_delta_log/0.json", "f.parquet")]
    summary = swept.sweep_twice()
    assert swept.waiting() == {orphan}
    assert summary.exit_code == 4
    files_of(swept, SECOND + 8)
    assert set(theirs) <= swept.lake.paths()


@pytest.mark.parametrize(
    ("file", "purged"), [("_delta_log/0.json", 0), (".hoodie/x", 0), ("snapshot/snapshot-1", 2)]
)
def test_files_that_commits_named_wait_only_for_formats_that_may_name_them_too(
    file: str, purged: int
) -> None:
    swept = Swept()
    swept.table.overwrite("newer")
    swept.leave(f"{ROOT}/{file}")
    swept.lake.on(20).run()
    run = swept.lake.on(40).run()
    assert (sum(t.files_purged for t in run.tables.values()) > 0) is (purged > 0)
    assert run.exit_code == (0 if purged else 4)
    if not purged:
        assert "has another owner" in run.notes[0]


# --- purges ---------------------------------------------------------------------------------------


def test_a_purge_where_no_sweep_has_looked_finds_a_foreign_table_by_itself() -> None:
    swept, _ = beside_a_stranger()
    swept.table.overwrite("newer")
    swept.lake.on(20).run()
    run = swept.lake.on(40).run()
    assert sum(t.files_purged for t in run.tables.values()) == 0
    assert run.exit_code == 4


def test_a_purge_where_no_sweep_has_looked_goes_on_in_a_healthy_lake() -> None:
    swept = Swept()
    swept.table.overwrite("newer")
    swept.lake.on(20).run()
    assert files_of(swept, 40) > 0


@pytest.mark.parametrize("name", [".00001-a.metadata.json.crc", "v1.metadata.json.crc"])
def test_a_checksum_beside_a_metadata_file_is_no_sign(name: str) -> None:
    swept = Swept()
    swept.table.overwrite("newer")
    swept.leave(f"{ROOT}/metadata/{name}", b"crc")
    swept.lake.on(20).run()
    assert files_of(swept, 40) > 0


def test_a_gate_finds_a_log_that_came_after_the_plan() -> None:
    swept = Swept()
    swept.table.overwrite("newer")
    swept.lake.on(20).run()
    swept.lake.on(40).run()
    plans = [p for p in swept.lake.control.plans.find() if p.kind == "purge"]
    swept.leave(f"{ROOT}/_delta_log/0.json", day=41)
    (verdict,) = [verdict for _, verdict in run_gate(swept.lake.services(), plans)]
    assert "planned_contested" in {failed.fact for failed in verdict.failed}


def test_a_log_that_comes_between_the_gate_and_the_deletes_keeps_the_files_waiting() -> None:
    swept = Swept()
    swept.table.overwrite("newer")
    swept.lake.on(20).run()
    waiting = swept.waiting()
    services = swept.lake.on(40).services()
    planned = Run(services, swept.lake.request()).plan_purge()
    plans = [plan for plan, _ in run_gate(services, [p.plan for p in planned])]
    swept.leave(f"{ROOT}/_delta_log/0.json", day=40)
    apply_purges(swept.lake.services(), plans)
    assert swept.waiting() == waiting <= swept.lake.paths()


def test_metadata_files_that_an_engine_deletes_tell_of_their_owner_all_the_same() -> None:
    swept, _ = beside_a_stranger()
    swept.table.configure(**{"write.metadata.delete-after-commit.enabled": "true"})
    swept.leave("orphan")
    stops(swept, "a table that no catalog shows")


def contested(swept: Swept) -> bool:
    """Whether a purge finds that others may own what commits named."""
    check = NamedFiles.of(swept.services())
    return f"{ROOT}/" in check.contested({f"{ROOT}/"})


def test_a_sweep_that_cannot_ask_everybody_forgets_no_sign() -> None:
    swept, _ = beside_a_stranger()
    swept.sweep(FIRST)
    assert contested(swept)
    lake = swept.services().catalogs["lake"]
    swept.sweep(SECOND, swept.services(catalogs={"lake": WithoutViews(lake)}))
    assert contested(swept)


def test_a_sweep_while_the_table_is_held_forgets_no_sign() -> None:
    swept, _ = beside_a_stranger()
    swept.sweep(FIRST)
    swept.table.configure(**{"meltline.hold": "audit"})
    swept.sweep(SECOND)
    assert contested(swept)


def test_a_folder_that_cannot_be_listed_is_contested_though_a_person_allows_it() -> None:
    swept = Swept()
    swept.sweep(FIRST)
    assert not contested(swept)
    allow(swept.services(), ROOT, "only this table writes there")

    class Shut:
        def level(self, folder: str) -> Level:
            raise PermissionError(folder)

    check = NamedFiles(Shut(), swept.lake.control.owners, swept.lake.clock.now())
    assert check.contested({f"{ROOT}/"}).keys() == {f"{ROOT}/"}


# --- folders that many tables use -----------------------------------------------------------------


def test_in_a_shared_data_folder_a_table_claims_only_what_its_path_or_a_commit_says() -> None:
    swept = Swept(a_lake(unlisted=("dark",)))
    objects = "file:///w/objects"
    swept.table.configure(**{"write.data.path": objects})
    swept.lake.on(2).run()
    stranger = swept.lake.table("dark.air.other", location="file:///w/dark/other")
    theirs = f"{objects}/0101/theirs.parquet"
    swept.leave(theirs)
    stranger.append(theirs)
    ours = swept.leave(f"{objects}/0110/air/t/ours.parquet")
    summary = swept.sweep_twice()
    assert (swept.waiting(), summary.exit_code) == ({ours}, 0)
    swept.lake.on(SECOND + 8).run()
    swept.lake.check_nothing_is_missing()
    assert theirs in swept.lake.paths()
    (row,) = swept.lake.control.places.withheld()
    assert (row.why, row.files) == ("unclaimed", 1)
    assert row.fix.endswith("`meltline sweep allow file:///w/objects/ --reason TEXT`")


def test_a_data_folder_that_a_person_says_is_one_tables_alone_is_swept() -> None:
    swept = Swept()
    objects = "file:///w/objects"
    swept.table.configure(**{"write.data.path": objects})
    orphan = swept.leave(f"{objects}/plain.parquet")
    swept.lake.on(2).run()
    allow(swept.lake.services(), objects, "only this table writes there")
    swept.sweep_twice()
    assert swept.waiting() == {orphan}


def test_one_metadata_folder_for_a_listed_and_an_unlisted_table_stops() -> None:
    swept = Swept(a_lake(unlisted=("dark",)))
    folder = "file:///w/shared-metadata"
    swept.table.configure(**{"write.metadata.path": folder})
    document = {"table-uuid": "e" * 8, "format-version": 2, "location": "file:///w/dark/other"}
    swept.lake.on(2).run()
    theirs = swept.leave(f"{folder}/00000-d.metadata.json", json.dumps(document).encode())
    swept.sweep_twice()
    assert [row.why for row in swept.lake.control.places.withheld()] == ["unclaimed"]
    files_of(swept, SECOND + 8, SECOND + 30)
    assert theirs in swept.lake.paths()


def test_an_adopted_word_is_stored_as_it_was_given() -> None:
    swept, stranger = beside_a_stranger()
    swept.sweep(FIRST)
    owner = allow(swept.lake.services(), stranger.uuid, " gone ")
    assert owner == AllowedOwner(stranger.uuid, "tester", "gone", swept.lake.clock.now())
    assert list(swept.lake.control.owners.allowed()) == [owner]
