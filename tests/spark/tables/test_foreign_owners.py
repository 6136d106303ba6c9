"""Owners whom nobody lists, beside real tables: stock Spark's own statements lead to each of them.

Two sweeps, failsafe and a purge later every reader of theirs still reads (O1 to O5).
"""

from pathlib import Path

import pytest

from meltline.app.orphans.allowed_owners import allow
from meltline.app.run.summary import Summary
from meltline.ports import KnownTable
from tests.spark.setups import walk
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse
from tests.spark.tables.test_sweep import FIRST, PURGED, SECOND, Village, make_old

pytestmark = pytest.mark.spark


def a_second_catalog(w: Warehouse) -> str:
    """A catalog that the configuration does not list, in the same warehouse."""
    prefix = "spark.sql.catalog.unlisted"
    for key, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        ".uri": f"jdbc:sqlite:{w.root}/unlisted.db",
        ".warehouse": f"file://{w.folder}",
        ".jdbc.schema-version": "V1",
        ".cache-enabled": "false",
    }.items():
        w.spark.conf.set(prefix + key, value)
    w.spark.sql(f"CREATE NAMESPACE unlisted.{SPACE}")
    return f"unlisted.{SPACE}"


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Village:
    """Tables beside others' views, tables and logs; each has an orphan of its own."""
    w = Warehouse.empty(tmp_path_factory.mktemp("borough"), "borough")
    theirs = a_second_catalog(w)
    for table in ("plain", "sv", "shared", "logged"):
        w.create(table)
        w.append(table, 0, 10)
    # O3: a view takes the old name of a table that was renamed, and with it the folder.
    w.sql(f"ALTER TABLE {{sv}} RENAME TO {SPACE}.sb", "CREATE VIEW {sv} AS SELECT id FROM {sb}")
    # O2: a copied SHOW CREATE TABLE makes a table of the same location in another catalog.
    at = w.document("shared")["location"]
    w.spark.sql(f"CREATE TABLE {theirs}.copy (id BIGINT) USING iceberg LOCATION '{at}'")
    w.spark.sql(f"INSERT INTO {theirs}.copy VALUES (1), (2)")
    # O1: the owner says that others need the files, and another catalog has the same table.
    w.create("guarded", "gc.enabled=false")
    w.append("guarded", 0, 10)
    at = w.location("guarded")
    w.spark.sql(
        f"CALL unlisted.system.register_table(table => '{SPACE}.twin', metadata_file => '{at}')"
    )
    w.sql("INSERT OVERWRITE {guarded} SELECT 7L, 7")
    v = Village(w)
    for table in ("plain", "sb"):
        v.leave(f"{v.at(table)}/data/orphan.parquet")
    for table in ("shared", "logged", "guarded"):
        v.leave(f"{v.at(table)}/data/orphan.parquet", orphan=False)
    # O4: another format has its log beside.
    v.leave(f"{v.at('logged')}/_delta_log/00000000000000000000.json", orphan=False)
    make_old(w)
    w.init(TODAY)
    w.run(TODAY)
    return v


@pytest.fixture(scope="module")
def swept(town: Village) -> list[Summary]:
    return [town.sweep(now) for now in (FIRST, SECOND)]


def test_only_orphans_of_folders_that_are_nobody_elses_depart(
    town: Village, swept: list[Summary]
) -> None:
    assert town.waiting(SECOND) == town.orphans
    assert swept[1].exit_code == 4
    skipped = {name.rpartition(".")[2]: t.skipped for name, t in swept[1].tables.items()}
    assert "a table that no catalog shows uses" in skipped["shared"]
    assert "a Delta table uses" in skipped["logged"]
    assert not skipped["plain"] and not skipped["sb"]


def test_every_reader_of_theirs_reads_on_after_failsafe(
    town: Village, swept: list[Summary]
) -> None:
    w = town.w
    summary = w.run(PURGED, run_id="purge")
    assert [line.failed for line in summary.tables.values() if line.failed] == []
    assert not town.orphans & set(w.disk())
    assert town.strangers <= set(w.disk())
    assert len(w.sql("SELECT * FROM {sv}")) == 8
    assert [row[0] for row in w.spark.sql(f"SELECT id FROM unlisted.{SPACE}.copy").collect()]
    for days in (30, 60):
        w.run(PURGED + days * DAY, run_id=f"later-{days}")
    assert w.spark.sql(f"SELECT * FROM unlisted.{SPACE}.twin").count() == 8


def test_a_listed_view_is_no_sign_and_a_person_allows_the_others(
    town: Village, swept: list[Summary]
) -> None:
    services = town.w.services(SECOND)
    signs = {sign.id: sign for sign in services.control.owners.signs() if sign.id}
    log = f"file://{town.at('logged')}/_delta_log/"
    shared = _known(services.control.registrations.all(), "shared")
    assert signs.keys() == {log, _uuid_of_the_copy(town)}
    assert signs[_uuid_of_the_copy(town)].root.rstrip("/") == shared.location.rstrip("/")
    allow(services, log, "the log is of a test")
    assert [owner.id for owner in town.w.services(SECOND).control.owners.allowed()] == [log]


def _known(rows: object, name: str) -> KnownTable:
    assert isinstance(rows, list)
    return next(row for row in rows if row.name.name == name)


def _uuid_of_the_copy(town: Village) -> str:
    rows = town.w.spark.sql(f"DESCRIBE TABLE EXTENDED unlisted.{SPACE}.copy").collect()
    location = next(row[1] for row in rows if row[0] == "Location")
    ours = town.w.document("shared")["table-uuid"]
    files = Path(walk.local(location), "metadata").glob("*.metadata.json")
    uuids = {walk.document(str(file))["table-uuid"] for file in files}
    (theirs,) = uuids - {ours}
    return str(theirs)
