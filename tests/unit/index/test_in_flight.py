"""What a listing shows and no commit has named: never a table's own current metadata file."""

from meltline.app.storage.explain import explain_path
from meltline.app.storage.report import StoredBytes, in_flight_bytes, listed_files, storage_rows
from meltline.domain.deletion.storage import StorageRow
from tests.lake.lake import Lake, Table


def rows(lake: Lake) -> dict[str, StorageRow]:
    context = lake.services()
    listed = listed_files(context)
    totals = StoredBytes(context).at(None, [stored.path for stored in listed])
    flying = in_flight_bytes(context, listed, totals)
    return {str(row.table): row for row in storage_rows(totals, flying)}


def a_table() -> tuple[Lake, Table]:
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("a")
    lake.on(1).run()
    return lake, table


def test_a_commit_that_no_run_has_seen_leaves_no_metadata_file_in_flight() -> None:
    # I-3
    lake, table = a_table()
    before = rows(lake)["lake.air.t"]
    table.configure(owner="ann")
    row = rows(lake)["lake.air.t"]
    size = lake.store.size(table.metadata_location)
    assert row.in_flight_bytes == before.in_flight_bytes == 0 and size
    active_and_historical = row.active_bytes + row.historical_bytes
    assert active_and_historical == before.active_bytes + before.historical_bytes + size
    assert explain_path(lake.services(), table.metadata_location).stage == "active"


def test_a_file_that_no_commit_has_named_is_in_flight() -> None:
    lake, table = a_table()
    lake.store.write(table.data("half"), b"written so far")
    assert rows(lake)["lake.air.t"].in_flight_bytes == len(b"written so far")
