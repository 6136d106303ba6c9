"""Behind a server, tables whose old metadata files go soon are not expired: none would tell why."""

import json
from dataclasses import replace

import pytest

from meltline.adapters.catalogs.rest.committer import RestCommitter
from meltline.adapters.catalogs.rest.protocol import LoadedTable
from meltline.app.doctor.doctor import examine
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.domain.deletion.plan import PlanState
from meltline.domain.deletion.short_logs import deletes_soon
from meltline.domain.iceberg.metadata_editor import PREVIOUS_VERSIONS
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import ENGINE_DELETES_METADATA
from tests.doubles.rest_protocol import MemoryProtocol
from tests.lake.lake import Lake, Table

SOON = {ENGINE_DELETES_METADATA: "true", PREVIOUS_VERSIONS: "5"}


def a_lake(*, behind_rest: bool = True, **properties: str) -> tuple[Lake, Table]:
    """Four snapshots; on day 12 the first three may go."""
    lake = Lake(behind_rest=behind_rest)
    table = lake.on(0).table("t", properties=properties)
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    return lake.on(12), table


@pytest.mark.parametrize(
    ("properties", "soon"),
    [
        ({}, False),
        ({PREVIOUS_VERSIONS: "1"}, False),
        ({ENGINE_DELETES_METADATA: "true"}, False),
        ({ENGINE_DELETES_METADATA: " TRUE ", PREVIOUS_VERSIONS: "99"}, True),
        ({ENGINE_DELETES_METADATA: "true", PREVIOUS_VERSIONS: "100"}, False),
        ({ENGINE_DELETES_METADATA: "true", PREVIOUS_VERSIONS: "many"}, True),
    ],
)
def test_few_versions_are_fewer_than_iceberg_keeps(properties: dict[str, str], soon: bool) -> None:
    assert bool(deletes_soon(properties)) is soon


def test_such_a_table_is_skipped_by_name_with_the_way_out_and_others_go_on() -> None:
    lake, table = a_lake(**SOON)
    other = lake.on(0).table("u")
    other.append("a")
    lake.on(1)
    other.overwrite("b")
    summary = lake.on(12).run()
    assert len(table.snapshots) == 4 and len(other.snapshots) == 1
    assert {plan.table for plan in lake.control.plans.find()} == {other.name}
    tables = {one["table"]: one for one in summary.as_json()["tables"]}
    reason = tables["lake.air.t"]["skipped"]
    assert "deleted after 5 commits" in reason and f"{ENGINE_DELETES_METADATA}=false" in reason
    (finding,) = [f for f in examine(lake.services()) if f.code == "old_metadata_deleted"]
    assert finding.object == "lake.air.t" and PREVIOUS_VERSIONS in finding.fix
    table.configure(**{ENGINE_DELETES_METADATA: "false"})
    lake.on(13).run()
    assert len(table.snapshots) == 1


def test_where_we_write_the_metadata_it_is_expired_as_ever() -> None:
    lake, table = a_lake(behind_rest=False, **SOON)
    assert lake.run().exit_code == 0 and len(table.snapshots) == 1


def test_what_was_set_between_plan_and_commit_is_seen() -> None:
    lake, table = a_lake()
    services = lake.services()
    run = Run(services, lake.request())
    plans = [planned.plan for planned in run.plan_expiration()]
    run_gate(services, plans)
    table.configure(**SOON)
    run.expire()
    (plan,) = lake.control.plans.find(states=[PlanState.STALE])
    assert len(table.snapshots) == 4 and "deleted after 5 commits" in plan.note


def test_what_was_set_right_before_the_commit_is_seen() -> None:
    lake, table = a_lake()

    class Loading(MemoryProtocol):
        """A server whose table gets the property once it was checked, at the same place."""

        def load(self, name: TableName, *, refs_only: bool = False) -> LoadedTable:
            loaded = super().load(name, refs_only=refs_only)
            properties = {**(loaded.metadata.get("properties") or {}), **SOON}
            return replace(loaded, metadata={**loaded.metadata, "properties": properties})

    served = Loading(lake.catalogs["lake"], lake.store)
    committer = RestCommitter({"lake": served}, lake.store, lake.clock)
    lake.run(services=replace(lake.services(), committer=committer))
    assert len(table.snapshots) == 4
    assert not lake.waiting()


def without_log(loaded: LoadedTable) -> LoadedTable:
    return replace(loaded, metadata={**loaded.metadata, "metadata-log": []})


class Logless(MemoryProtocol):
    """A server whose answers have no metadata log."""

    def load(self, name: TableName, *, refs_only: bool = False) -> LoadedTable:
        return without_log(super().load(name, refs_only=refs_only))


def test_a_server_that_names_no_file_before_is_found_out_before_anything_is_removed() -> None:
    lake, table = a_lake()
    served = Logless(lake.catalogs["lake"], lake.store)
    committer = RestCommitter({"lake": served}, lake.store, lake.clock)
    summary = lake.run(services=replace(lake.services(), committer=committer))
    assert len(table.snapshots) == 4
    assert "names no metadata file before" in str(summary.as_json())


def test_a_table_without_a_log_of_its_own_is_expired_by_a_server_that_keeps_one() -> None:
    lake, table = a_lake()
    table.edit(lambda document: document.update({"metadata-log": []}))
    at = table.metadata_location
    document = lake.document(at) | {"metadata-log": []}
    lake.store.write(at, json.dumps(document).encode())
    assert not table.document["metadata-log"]
    assert lake.run().exit_code == 0 and len(table.snapshots) == 1
