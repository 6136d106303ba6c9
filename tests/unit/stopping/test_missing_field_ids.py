"""Manifest lists and manifests without field ids are read by the specification's names."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from meltline.adapters.manifests.fastavro_reader import read_manifest_list
from meltline.adapters.manifests.pyiceberg_reader import (
    ListedManifest,
    listed_manifests,
    live_columns,
    live_files,
    with_ids,
)
from meltline.domain.errors import MetadataUnreadable
from meltline.domain.iceberg.files import FileKind
from tests.doubles.manifest_files import list_schema, manifest_schema, read_avro, written_avro
from tests.lake.lake import Lake, Table
from tests.unit.stopping.odd_lists import leave_out_ids, without_ids

SIZE = {"file_size_in_bytes": 7}
LAST_DAY = 30  # windows of 7 days and failsafes of 7 days are over


def a_lake(version: int, alter: Callable[[Lake, Table], None]) -> tuple[Lake, Table]:
    """A table whose every commit is as some writer leaves it."""
    lake = Lake()
    odd = lake.on(0).table("odd", version=version)
    for day in range(3):
        lake.on(day)
        odd.overwrite(f"o{day}")
        alter(lake, odd)
    return lake, odd


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_without_field_ids_is_expired_and_purged_like_any_other(version: int) -> None:
    lake, odd = a_lake(version, leave_out_ids)
    assert {lake.on(day).run().exit_code for day in range(3, LAST_DAY, 5)} == {0}
    assert len(odd.snapshots) == 1
    assert not {odd.data("o0"), odd.data("o1")} & lake.paths()
    lake.check_nothing_is_missing()


def test_what_it_names_of_another_table_stays() -> None:
    lake, odd = a_lake(2, leave_out_ids)
    well = lake.table("well")
    well.append("w0")
    odd.append(well.data("w0"))
    leave_out_ids(lake, odd)
    lake.on(3)
    well.overwrite("w1")
    for day in range(4, LAST_DAY, 5):
        lake.on(day).run()
    assert len(well.snapshots) == 1 and well.data("w0") in lake.paths()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_both_readers_read_the_same_with_ids_and_without(version: int) -> None:
    lake, odd = a_lake(version, lambda lake, table: None)
    kind = FileKind.DATA if version == 1 else FileKind.POSITION_DELETE
    odd.replace(add=["more"], kind=kind)
    place = odd.manifest_list(odd.head)
    content = lake.store.read(place)
    bare = without_ids(content)
    assert "field-id" not in str(read_avro(bare).schema)
    assert listed_manifests(place, bare) == listed_manifests(place, content)
    assert read_manifest_list(place, bare) == read_manifest_list(place, content)
    for manifest in listed_manifests(place, content):
        whole = lake.store.read(manifest.path)
        bare = without_ids(whole)
        shorter = replace(manifest, bytes=len(bare))
        assert live_files(shorter, bare) == live_files(manifest, whole)
        assert live_columns(shorter, bare) == live_columns(manifest, whole)


@pytest.mark.parametrize("schema", [list_schema(2), manifest_schema(2), manifest_schema(3)])
def test_ids_that_are_written_stay(schema: Any) -> None:
    assert with_ids(schema) == schema


def test_a_name_of_the_specification_within_a_partition_is_nothing_to_a_gate() -> None:
    partition = {
        "name": "partition",
        "type": {"type": "record", "name": "r102", "fields": [{"name": "status", "type": "int"}]},
    }
    place = [
        {"name": "file_path", "type": "string"},
        {"name": "file_size_in_bytes", "type": "long"},
    ]
    file = {"type": "record", "name": "r2", "fields": [partition, *place]}
    entry = [{"name": "data_file", "type": file}, {"name": "status", "type": "int"}]
    rows = [
        {"status": n, "data_file": {"partition": {"status": 2}, "file_path": f"{n}", **SIZE}}
        for n in range(3)
    ]
    content = written_avro({"type": "record", "name": "manifest_entry", "fields": entry}, rows, {})
    assert live_columns(ListedManifest("m", len(content), 3), content).paths == ["0", "1"]


def test_a_field_that_has_an_id_is_the_one_of_that_id_whatever_it_is_called() -> None:
    names = (("file_path", 901, "string"), ("path", 100, "string"), ("size", 104, "long"))
    file = [{"name": name, "type": kind, "field-id": number} for name, number, kind in names]
    record = {"type": "record", "name": "r2", "fields": file}
    entry = [
        {"name": "status", "type": "int", "field-id": 0},
        {"name": "data_file", "type": record, "field-id": 2},
    ]
    row = {"status": 1, "data_file": {"file_path": "another", "path": "a", "size": 7}}
    content = written_avro({"type": "record", "name": "manifest_entry", "fields": entry}, [row], {})
    assert live_columns(ListedManifest("m", len(content), 1), content).paths == ["a"]


def test_a_file_without_ids_and_without_such_names_is_refused() -> None:
    schema = {
        "type": "record",
        "name": "manifest_entry",
        "fields": [{"name": "state", "type": "int"}, {"name": "path", "type": "string"}],
    }
    content = written_avro(schema, [{"state": 1, "path": "a"}], {})
    with pytest.raises(MetadataUnreadable):
        live_columns(ListedManifest("m", len(content), 1), content)
    with pytest.raises(MetadataUnreadable):
        listed_manifests("l", content)
