"""Damaged files are read or refused by name: no crash, no hang, no memory without bound.

Each kind is read in a process of its own, since what reads it may end that process.
"""

import io
import json
import subprocess
import sys
from pathlib import Path
from random import Random

import fastavro
import pytest

from meltline.adapters.manifests.fastavro_reader import read_manifest_list
from meltline.domain.errors import MetadataUnreadable
from tests.lake.copies import fresh_lake
from tests.lake.damage import KINDS, MANIFEST, MANIFEST_LIST, METADATA, Sample
from tests.lake.fuzzing import READERS, is_refused
from tests.lake.lake import Lake, Table
from tests.lake.swept import swept
from tests.seeds import SEED, examples

FILES = examples(few=500, many=10_000)  # of each kind
A_LAKE = 250  # one lake for this number of files


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow("10,000 damaged files in the larger tiers")
def test_every_damaged_file_is_read_or_refused_by_name(kind: str, tmp_path: Path) -> None:
    progress = tmp_path / "number"
    asked = [kind, str(SEED), str(FILES), str(progress)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.lake.fuzzing", *asked],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    last = f"{kind}, seed {SEED}: ended at {progress.read_text()}: {done.stderr[-2000:]}"
    assert done.returncode == 0, last
    *wrong, outcomes = map(json.loads, done.stdout.splitlines())
    assert not wrong, f"{kind}, seed {SEED}: {wrong[:5]}"
    assert outcomes["outcomes"]["refused"] and outcomes["outcomes"]["read"]


def a_lake(version: int) -> tuple[Lake, Table]:
    """A table with history, refs and files that a clone needs as well."""
    lake = fresh_lake()
    table = lake.on(0).table("t", version=version)
    for name in "abc":
        table.append(name)
    table.tag("kept", table.head)
    lake.clone(table, "lake.air.clone").append("d")
    table.overwrite("e")
    table.overwrite("f")
    return lake, table


def file_of(table: Table, kind: str, random: Random) -> Sample:
    """One of the files that a table's metadata leads to."""
    snapshot = random.choice(table.snapshots)
    at = {
        METADATA: table.metadata_location,
        MANIFEST_LIST: table.manifest_list(snapshot),
        MANIFEST: random.choice(table._manifests_of(snapshot)).path,
    }[kind]
    return Sample(kind, table.version, at, table.lake.store.read(at))


def accident(sound: Sample, random: Random, *, is_noticed: bool) -> Sample:
    """What may happen to a file; `is_noticed` only what a reader refuses."""
    while True:
        damaged = sound.hurt(random)
        if damaged.content != sound.content and not (
            is_noticed and not any(is_refused(reader, damaged) for reader in READERS[sound.kind])
        ):
            return damaged


@pytest.mark.parametrize("is_indexed", [False, True], ids=["never read", "read before"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_damaged_file_led_to_is_deleted(kind: str, is_indexed: bool) -> None:
    for number in range(max(1, FILES // A_LAKE)):
        random = Random(f"{kind} {SEED} {number}")
        lake, table = a_lake(version=1 + number % 3)
        if is_indexed:
            lake.run()
        sound = file_of(table, kind, random)
        # What no reader can see is not the same file any more; but what was read of it once stays.
        noticed = kind == METADATA or not is_indexed
        damaged = accident(sound, random, is_noticed=noticed)
        lake.spoil(sound.path, damaged.content)
        for day in (10, 18, 26):
            lake.on(day).run()
        swept(lake, 30, 37)
        lake.mend(sound.path, sound.content)
        gone = lake.needed() - {lake._real_key(path) for path in lake.paths()}
        assert not gone, f"{kind}, seed {SEED}, number {number}: {sorted(gone)}"


def a_list_with(field: str, kind: str, content: object) -> bytes:
    """A manifest list of one manifest, of which one field is of another type than the spec's."""
    kinds = {"manifest_path": "string", "manifest_length": "long", "added_snapshot_id": "long"}
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [{"name": name, "type": kinds[name]} for name in kinds if name != field]
        + [{"name": field, "type": kind}],
    }
    row = {"manifest_path": "file:/m.avro", "manifest_length": 7, "added_snapshot_id": 1}
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), [row | {field: content}])
    return file.getvalue()


@pytest.mark.parametrize(
    ("field", "kind", "content"),
    [
        ("manifest_path", "long", 3),
        ("manifest_path", "bytes", b"file:/m.avro"),
        ("manifest_length", "double", 7.0),
        ("added_snapshot_id", "string", "1"),
    ],
)
def test_a_list_with_a_field_of_another_type_is_refused_whatever_is_in_it(
    field: str, kind: str, content: object
) -> None:
    with pytest.raises(MetadataUnreadable, match="a manifest list") as refused:
        read_manifest_list("file:/list.avro", a_list_with(field, kind, content))
    assert f"{field} is {kind}" in refused.value.found
