"""The contract of catalogs on Glue, by moto behind a proxy that enforces versions."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meltline.adapters.catalogs.catalogs import open_catalog
from meltline.adapters.catalogs.metastores.aws_access import glue_client
from meltline.adapters.catalogs.metastores.glue import GlueRows
from meltline.adapters.catalogs.metastores.rows import LOCATION, fenced
from meltline.adapters.catalogs.metastores.tables import MetastoreTables
from meltline.config.load import CatalogConfig
from meltline.domain.errors import CatalogUnlistable, CommitConflict, ConfigInvalid, TableNotFound
from meltline.domain.iceberg.names import TableName
from meltline.ports import Catalog, TableMove
from tests.contract.catalogs import test_catalog, test_registrations
from tests.contract.catalogs.test_catalog import NAME, START, Shop, store
from tests.contract.catalogs.test_registrations import PLACE, mark, standing
from tests.doubles.store import MemoryStore
from tests.stacks.glue.glue_server import GlueServer, glue_server
from tests.stacks.suites import contract_of

__all__ = ["store"]

globals().update(contract_of(test_catalog, test_registrations))


def properties_of(server: GlueServer) -> dict[str, str]:
    return {
        "glue.endpoint": server.uri,
        "glue.region": "eu-central-1",
        "glue.access-key-id": "key",
        "glue.secret-access-key": "secret",
    }


@pytest.fixture(scope="module")
def shared_server() -> Iterator[GlueServer]:
    with glue_server() as server:
        yield server


@pytest.fixture
def server(shared_server: GlueServer) -> Iterator[GlueServer]:
    shared_server.requests.clear()
    yield shared_server
    shared_server.broken.clear()
    shared_server.send("POST", "/moto-api/reset", {"Content-Length": "0"}, b"")


@pytest.fixture
def client(server: GlueServer) -> Any:
    return glue_client(properties_of(server))


@pytest.fixture
def shop(server: GlueServer, client: Any, store: MemoryStore) -> Shop:
    def open_handle(observe_only: bool) -> Catalog:
        config = CatalogConfig("lake", "glue", "", "", "", observe_only, properties_of(server))
        return open_catalog(config, store)

    client.create_database(DatabaseInput={"Name": "air"})
    handle = open_handle(False)
    assert isinstance(handle, MetastoreTables)
    handle.register(NAME, START)
    return Shop(open_handle, store)


def test_every_commit_names_the_version_that_it_has_read(shop: Shop, server: GlueServer) -> None:
    shop.set("a")
    shop.catalog.move([TableMove(NAME, PLACE, mark)])
    shop.catalog.unregister(PLACE, standing(shop)[PLACE])
    updates = [words for operation, words in server.requests if operation == "UpdateTable"]
    assert len(updates) == 3 and all(words["VersionId"] for words in updates)


def test_fields_that_nobody_here_knows_are_kept(shop: Shop, client: Any) -> None:
    table = client.get_table(DatabaseName="air", Name="t")["Table"]
    changed = {
        "Name": "t",
        "Description": "theirs",
        "Owner": "ann",
        "Retention": 3,
        "TableType": "EXTERNAL_TABLE",
        "StorageDescriptor": table["StorageDescriptor"],
        "Parameters": {**table["Parameters"], "theirs": "x", "owner": "me"},
    }
    client.update_table(DatabaseName="air", TableInput=changed, VersionId=table["VersionId"])
    shop.catalog.set_table_properties(NAME, {"owner": "you"})
    after = client.get_table(DatabaseName="air", Name="t")["Table"]
    assert (after["Description"], after["Owner"], after["Retention"]) == ("theirs", "ann", 3)
    assert (after["Parameters"]["theirs"], after["Parameters"]["owner"]) == ("x", "you")
    assert after["Parameters"]["previous_metadata_location"] == START


def put(
    client: Any, name: str, kind: str, parameters: dict[str, str], folder: str = "", path: str = ""
) -> None:
    """A table that others made: a view, or a table of another format."""
    storage = {"Columns": [], "Location": folder, "SerdeInfo": {"Parameters": {"path": path}}}
    table = {"Name": name, "TableType": kind, "Parameters": parameters}
    client.create_table(
        DatabaseName="air",
        TableInput={**table, **({"StorageDescriptor": storage} if folder else {})},
    )


def test_views_and_tables_of_other_formats_are_named_with_the_folders_that_they_own(
    shop: Shop, client: Any
) -> None:
    put(client, "logs", "EXTERNAL_TABLE", {"classification": "parquet"}, "s3://b/logs")
    put(client, "delta", "EXTERNAL_TABLE", {"spark.sql.sources.provider": "delta"},
        "s3://b/-__PLACEHOLDER__", path="s3://b/delta")  # fmt: skip
    put(client, "v", "VIRTUAL_VIEW", {})
    put(client, "mv", "VIRTUAL_VIEW", {"comment": "Presto Materialized View", LOCATION: START})
    owners = {owner.name.name: owner for owner in shop.catalog.other_owners()}
    assert {name: (owner.kind, owner.location) for name, owner in owners.items()} == {
        "logs": ("parquet", "s3://b/logs"),
        "delta": ("delta", "s3://b/delta"),
        "v": ("view", ""),
    }
    listing = shop.catalog.listing()
    hidden = replace(NAME, name="mv")
    assert listing.hidden == {hidden} and {e.name for e in listing.entries} == {hidden, NAME}
    assert shop.catalog.location(hidden) == START


def test_a_commit_whose_answer_is_lost_is_no_conflict_and_its_file_stays(
    shop: Shop, server: GlueServer
) -> None:
    server.broken.add("UpdateTable")
    with pytest.raises(CommitConflict, match="nobody knows"):
        shop.catalog.set_table_properties(NAME, {"k": "v"})
    server.broken.clear()
    assert shop.document()["properties"]["k"] == "v"


@pytest.mark.parametrize(
    ("operation", "is_done"),
    [("UpdateTable", True), ("CreateTable", False), ("CreateTable", True), ("DeleteTable", False),
     ("DeleteTable", True)],
)  # fmt: skip
def test_a_move_that_dies_at_any_step_is_seen_and_finished_by_the_next_one(
    shop: Shop, server: GlueServer, operation: str, is_done: bool
) -> None:
    (server.broken if is_done else server.refused).add(operation)
    with pytest.raises(CommitConflict):
        shop.catalog.move([TableMove(NAME, PLACE, mark)])
    server.broken.clear()
    server.refused.clear()
    seen = standing(shop)
    (at,) = set(seen.values())
    assert set(seen) <= {NAME, PLACE} and at != START
    with pytest.raises(TableNotFound):
        shop.set("late")
    assert standing(shop) == {PLACE: at} and at in shop.files()


def test_nobody_can_commit_to_a_table_that_is_on_its_way(shop: Shop, client: Any) -> None:
    rows = GlueRows("lake", client)
    before = rows.row("air", "t")
    assert before is not None
    assert rows.replace(before, fenced(before, before.parameters, ("attic", "t"), "7"))
    assert not rows.replace(before, {**before.parameters, "metadata_location": "theirs"})
    moving = rows.row("air", "t")
    assert moving is not None and moving.is_moving and moving.location == START


def test_a_table_whose_new_name_was_taken_meanwhile_comes_back(shop: Shop, client: Any) -> None:
    taken = TableName("lake", ("air",), "other")
    handle = shop.open_handle(False)
    assert isinstance(handle, MetastoreTables)
    shop.store.write("file:///w/o/metadata/00000-o.metadata.json", shop.store.read(START))
    handle.register(taken, "file:///w/o/metadata/00000-o.metadata.json")
    rows = GlueRows("lake", client)
    row = rows.row("air", "t")
    assert row is not None and rows.replace(row, fenced(row, row.parameters, ("air", "other"), "7"))
    shop.set("k")
    assert set(standing(shop)) == {NAME, taken} and shop.document()["properties"]["k"] == "v"


def test_keys_that_nobody_gave_and_a_server_that_is_away_are_named(
    server: GlueServer, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    words = properties_of(server)
    half = {k: v for k, v in words.items() if k != "glue.secret-access-key"}
    none = {k: v for k, v in half.items() if k != "glue.access-key-id"}
    with pytest.raises(ConfigInvalid, match=r"glue\.secret-access-key is missing"):
        open_catalog(CatalogConfig("lake", "glue", "", "", "", False, half), store)
    away = {**words, "glue.endpoint": "http://127.0.0.1:1"}
    for properties, reason, step in (
        (none, "no credentials", "glue.access-key-id"),
        (away, "nobody answers", "start it"),
    ):
        with pytest.raises(CatalogUnlistable) as refused:
            open_catalog(
                CatalogConfig("lake", "glue", "", "", "", False, properties), store
            ).listing()
        assert reason in refused.value.found and step in refused.value.next


def test_a_table_that_was_dropped_and_made_anew_is_another_though_its_version_is_the_same(
    shop: Shop, client: Any
) -> None:
    rows = GlueRows("lake", client)
    before = rows.row("air", "t")
    assert before is not None
    client.delete_table(DatabaseName="air", Name="t")
    theirs = {"table_type": "ICEBERG", "metadata_location": "file:///w/theirs.metadata.json"}
    client.create_table(DatabaseName="air", TableInput={"Name": "t", "Parameters": theirs})
    anew = rows.row("air", "t")
    assert anew is not None and anew.entity["VersionId"] == before.entity["VersionId"]
    assert not rows.replace(before, {**before.parameters, "metadata_location": "file:///w/m.json"})
    standing_now = rows.row("air", "t")
    assert standing_now is not None and standing_now.location == theirs["metadata_location"]


def test_a_table_of_a_name_that_meltline_gives_to_none_is_held_like_any_other(
    shop: Shop, client: Any
) -> None:
    odd = TableName("lake", ("air",), "my-table")
    pointing = {"table_type": "ICEBERG", "metadata_location": START}
    client.create_table(DatabaseName="air", TableInput={"Name": "my-table", "Parameters": pointing})
    assert odd in standing(shop)
    shop.catalog.set_table_properties(odd, {"meltline.hold": "1"})
    assert standing(shop)[odd] != START == standing(shop)[NAME]


def test_two_rows_that_would_have_one_name_are_not_listed_as_one(shop: Shop, client: Any) -> None:
    client.create_database(DatabaseInput={"Name": "meltline_dropped"})
    pointing = {"table_type": "ICEBERG", "metadata_location": START}
    for name in ("a__b", "a-b"):
        client.create_table(
            DatabaseName="meltline_dropped", TableInput={"Name": name, "Parameters": pointing}
        )
    with pytest.raises(CatalogUnlistable, match="completely") as refused:
        shop.catalog.listing()
    assert "a-b" in refused.value.found
