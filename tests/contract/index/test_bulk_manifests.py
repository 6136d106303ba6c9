"""Spark's own decoder gives what fastavro gives, or less than the manifest list counts."""

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from meltline.adapters.manifests.avro_container import AvroFile
from meltline.adapters.manifests.fastavro_reader import read_manifest
from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.manifests.pyiceberg_reader import ListedManifest, live_files
from meltline.adapters.manifests.spark_decoder import BulkManifest, bulk_entries
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.errors import MetadataUnreadable
from meltline.domain.iceberg.files import EntryStatus, FileKind, ManifestFile
from tests.lake.avro_files import Entry, manifest_bytes
from tests.lake.damage import MANIFEST, samples
from tests.seeds import SEED, examples
from tests.spark.setups.warehouse import Warehouse

pytestmark = pytest.mark.spark

ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED
KINDS = tuple(kind for kind in FileKind if kind.name in {
    "DATA", "POSITION_DELETE", "DELETION_VECTOR", "EQUALITY_DELETE"
})  # fmt: skip

Row = tuple[object, ...]

CODECS = ("null", "deflate", "snappy", "zstandard")


@dataclass(frozen=True)
class Shelf:
    """A folder of manifests, and Spark to read them."""

    warehouse: Warehouse
    home: str
    store: ObjectStores

    def entries(self, prefix: str, count: int, status: EntryStatus = ADDED) -> list[Entry]:
        return [
            Entry(f"{self.home}data/{prefix}{n}.parquet", n, KINDS[n % 4], status, n, n + 1)
            for n in range(count)
        ]

    def write(
        self, name: str, entries: Sequence[Entry], version: int = 2, codec: str = "null"
    ) -> ManifestFile:
        content = manifest_bytes(version, entries)
        file = AvroFile.read(content)
        header = {**file.header, "avro.codec": codec.encode()}
        content = AvroFile(header, file.sync, b"").with_records(file.records(), {})
        return self.put(name, content, entries)

    def put(self, name: str, content: bytes, entries: Sequence[Entry]) -> ManifestFile:
        path = f"{self.home}metadata/{name}.avro"
        self.store.write(path, content)
        found = Counter(entry.status for entry in entries)
        counts = (found[ADDED], found[EXISTING], found[DELETED])
        return ManifestFile(path, len(content), *counts, added_snapshot_id=3, sequence_number=9)

    def expected(self, manifest: ManifestFile) -> list[Row]:
        return sorted(
            (
                entry.path, key_hash(entry.path), str(entry.kind), entry.bytes, int(entry.status),
                entry.snapshot_id or 0, entry.sequence_number or 0, entry.file_sequence_number or 0,
            )
            for entry in read_manifest(manifest.path, self.store.read(manifest.path))
        )  # fmt: skip

    def read(
        self,
        *manifests: ManifestFile,
        homes: tuple[str, ...] = (),
        changes_only: bool = False,
        fronts: bool = False,
    ) -> dict[str, list[Row]]:
        """The rows of each manifest by its name, without those that give none."""
        bulk = [BulkManifest("t", one, homes or (self.home,)) for one in manifests]
        rows = bulk_entries(
            self.warehouse.spark, self.store, bulk, changes_only=changes_only, fronts=fronts
        ).collect()
        names = {one.id: one.manifest.path.rpartition("/")[2] for one in bulk}
        found: dict[str, list[Row]] = {}
        for row in rows:
            fact = (
                row["path"], row["key_hash"], row["kind"], row["bytes"], row["status"],
                row["snapshot_id"] or 0, row["sequence_number"] or 0,
                row["file_sequence_number"] or 0,
            )  # fmt: skip
            found.setdefault(names[row["manifest_id"]].removesuffix(".avro"), []).append(fact)
        return {name: sorted(facts) for name, facts in found.items()}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    root = tmp_path_factory.mktemp("shelf")
    yield Shelf(Warehouse.empty(root, "shelf"), f"file://{root}/lake/t/", ObjectStores({}))


def test_each_format_and_codec_gives_what_the_other_reader_gives(shelf: Shelf) -> None:
    entries = [
        entry for status in (ADDED, EXISTING, DELETED) for entry in shelf.entries("e", 90, status)
    ]
    manifests = {
        f"{version}-{codec}": shelf.write(f"{version}-{codec}", entries, version, codec)
        for version in (1, 2, 3)
        for codec in CODECS
    }
    found = shelf.read(*manifests.values())
    assert {name: len(rows) for name, rows in found.items()} == dict.fromkeys(manifests, 270)
    assert found == {name: shelf.expected(manifest) for name, manifest in manifests.items()}


def test_what_is_not_written_is_null_and_comes_with_what_is_to_be_inherited(shelf: Shelf) -> None:
    manifest = shelf.write("added", shelf.entries("a", 3))
    bulk = [BulkManifest("t", manifest, (shelf.home,))]
    rows = bulk_entries(shelf.warehouse.spark, shelf.store, bulk).collect()
    names = ("table_uuid", "snapshot_id", "sequence_number", "file_sequence_number")
    assert {tuple(row[name] for name in names) for row in rows} == {("t", None, None, None)}
    inherited = {(row["added_snapshot_id"], row["list_sequence_number"]) for row in rows}
    assert inherited == {(3, 9)}


def test_an_unknown_codec_is_left_to_the_other_reader(shelf: Shelf) -> None:
    known = shelf.write("known", shelf.entries("k", 60))
    content = manifest_bytes(2, shelf.entries("o", 60)).replace(b"\x08null", b"\x08what")
    assert b"what" in content
    other = shelf.put("other", content, shelf.entries("o", 60))
    assert shelf.read(known, other).keys() == {"known"}


def test_a_large_manifest_is_read_in_parts_each_once(shelf: Shelf) -> None:
    entries = shelf.entries("a-rather-long-name-" * 6, 20_000)
    manifest = shelf.write("large", entries)
    assert manifest.bytes > 3 * 1024 * 1024
    small = shelf.write("beside", shelf.entries("s", 60))
    found = shelf.read(manifest, small)
    assert found["large"] == shelf.expected(manifest)
    assert found["beside"] == shelf.expected(small)


# --- paths ----------------------------------------------------------------------------------------

ODD = (
    "data//twice.parquet", "/once.parquet", "data/a%20b.parquet", "data/./c.parquet",
    "data/../d.parquet", "data/.hidden", "data/folder/", "", "%2e%2e/up", "data/é//f",
)  # fmt: skip
FINE = ("data/ü/á b.parquet", "data/50%.parquet", "data/#1?x=y&z", "x", "data/a%zz:b")


@pytest.mark.parametrize("home", ["file:///w/t/", "s3://b/t/", "s3a://B/t/", "file:/w/t/", "/w/t/"])
def test_a_key_that_is_hashed_is_that_of_its_location(shelf: Shelf, home: str) -> None:
    """Each odd path among plain ones, which may lead the looks at all bytes astray."""
    manifests = []
    for number, odd in enumerate((*ODD, *FINE)):
        paths = [f"{home}data/{n}.parquet" for n in range(9)] + [f"{home}{odd}"]
        entries = [Entry(path, 37, FileKind.DATA, ADDED, 1, 1) for path in paths]
        manifests.append(shelf.write(f"p{number}", entries))
    found = shelf.read(*manifests, homes=(home,))
    for number, manifest in enumerate(manifests):
        rows = found[f"p{number}"]
        assert {row[:2] for row in rows} <= {row[:2] for row in shelf.expected(manifest)}
        assert len(rows) >= 9
        if number < len(ODD):
            assert len(rows) == 9
    assert len(found[f"p{len(ODD) + 3}"]) == 10


@pytest.mark.parametrize("home", ["file:///w/t/", "s3://b/t/", "file:/w/t/"])
def test_a_folder_named_again_inside_a_path_keeps_its_slashes_single(
    shelf: Shelf, home: str
) -> None:
    paths = [f"{home}data/{home}x", f"{home}data/x{home}x", f"{home}{home}", "/foreign"]
    entries = [Entry(path, 1, FileKind.DATA, ADDED, 1, 1) for path in (*paths, f"{home}y")]
    manifest = shelf.write("again", entries)
    (rows,) = shelf.read(manifest, homes=(home, "file:/w/other/")).values()
    assert {row[:2] for row in rows} <= {row[:2] for row in shelf.expected(manifest)}
    assert f"{home}y" in {row[0] for row in rows}


def test_paths_under_either_home_are_taken_and_no_others(shelf: Shelf) -> None:
    homes = ("s3://b/old/", "s3a://B/new/")
    good = [f"{home}data/{n}" for home in homes for n in range(5)]
    bad = ["s3://b/older/x", "/bare", "s3://b/new/x", "s3://b/old//x", "s3a://B/new//x"]
    entries = [Entry(path, 1, FileKind.DATA, ADDED, 1, 1) for path in (*good, *bad)]
    (rows,) = shelf.read(shelf.write("two", entries), homes=homes).values()
    assert {(row[0], row[1]) for row in rows} == {(path, key_hash(path)) for path in good}


def test_random_spellings_never_get_another_hash(shelf: Shelf) -> None:
    random.seed(7)
    letters = ["a", "b", "/", "//", ".", "%", "%2F", "%41", "é", " ", "/./", "-", "s3://b/t/"]
    paths = ["".join(random.choices(letters, k=random.randint(0, 6))) for _ in range(3_000)]
    home = "s3://b/t/"
    manifests = [
        shelf.write(
            f"r{n}",
            [Entry(home + p, 0x2F2F, FileKind.DATA, ADDED, 1, 1) for p in paths[n : n + 3]],
        )
        for n in range(0, len(paths), 3)
    ]
    rows = [row for rows in shelf.read(*manifests, homes=(home,)).values() for row in rows]
    assert len(rows) > 300
    assert all(row[1] == key_hash(str(row[0])) for row in rows)


def test_a_path_that_is_no_text_is_left_out(shelf: Shelf) -> None:
    entries = shelf.entries("n", 60)
    content = manifest_bytes(2, entries)
    file = AvroFile.read(content)
    plain = AvroFile({**file.header, "avro.codec": b"null"}, file.sync, b"")
    content = plain.with_records(file.records(), {}).replace(b"data/n7.", b"data/\xff7.")
    found = shelf.read(shelf.put("no-text", content, entries))
    assert len(found["no-text"]) == 59


def test_an_entry_of_an_unknown_status_is_left_out(shelf: Shelf) -> None:
    entries = shelf.entries("s", 60)
    file = AvroFile.read(manifest_bytes(2, entries))
    first, *others = file.records()
    content = file.with_records([{**first, "status": 18}, *others], {})
    rows = shelf.read(shelf.put("status", content, entries))
    assert len(rows["status"]) == 59


# --- broken files ---------------------------------------------------------------------------------


def test_broken_manifests_cost_only_themselves(shelf: Shelf) -> None:
    entries = shelf.entries("b", 60)
    good = shelf.write("good", entries)
    content = shelf.store.read(good.path)
    header = len(content) - len(AvroFile.read(content).body)
    path = content.index(f"{shelf.home}data/b5.parquet".encode())
    giant = b"\xfe\xff\xff\xff\x0f"  # the length of a string: two gibibytes
    broken = {
        "noise": os.urandom(len(content)),
        "empty": b"",
        "cut": content[:-20],
        "only-header": content[:header],
        "no-schema": content.replace(b"avro.schema", b"avro.sch3ma"),
        "other-schema": content.replace(b'"file_path"', b'"file_road"'),
        "giant": content[: path - 2] + giant + content[path + 3 :],
    }
    manifests = [shelf.put(name, made, entries) for name, made in broken.items()]
    short = replace(shelf.put("short", content, entries), bytes=good.bytes - 1)
    lying = replace(shelf.put("lying", content, entries), added_files=61)
    missing = replace(good, path=f"{shelf.home}metadata/missing.avro")
    found = shelf.read(*manifests, good, short, lying, missing)
    assert found["good"] == shelf.expected(good)
    assert {name for name, rows in found.items() if len(rows) == 60} == {"good"}


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_single_wrong_bytes_never_end_the_job(shelf: Shelf, codec: str) -> None:
    entries = shelf.entries("w", 60)
    good = shelf.write(f"sound-{codec}", entries, codec=codec)
    content = shelf.store.read(good.path)
    random.seed(11)
    damaged = []
    for number in range(150):
        made = bytearray(content)
        made[random.randrange(len(made))] ^= random.randrange(1, 256)
        damaged.append(shelf.put(f"w{number}-{codec}", bytes(made), entries))
    found = shelf.read(*damaged, good)
    assert found[f"sound-{codec}"] == shelf.expected(good)


def test_damaged_manifests_give_what_the_other_readers_give_or_less(shelf: Shelf) -> None:
    """A thousand, by each accident that `tests.lake.damage` knows, in one job."""
    listed = samples(MANIFEST)[0].entries
    # Of a table's first manifest the schema is always looked at: noise may hide those of the rest.
    manifests = {"sound": shelf.put("sound", samples(MANIFEST)[0].content, ())}
    for number in range(examples(few=100, many=1_000)):
        chance = random.Random(f"bulk {SEED} {number}")
        sample = chance.choice(samples(MANIFEST)).hurt(chance)
        manifests[f"hurt{number}"] = shelf.put(f"hurt{number}", sample.content, ())
    manifests = {
        name: ManifestFile(one.path, one.bytes, *listed, added_snapshot_id=3)
        for name, one in manifests.items()
    }
    rows_of = shelf.read(*manifests.values(), homes=("s3://lake/t/",))
    complete = {name: rows for name, rows in rows_of.items() if len(rows) == sum(listed)}
    assert "sound" in complete, f"seed {SEED}"
    for name, rows in complete.items():
        assert is_agreed(shelf, manifests[name], rows), f"{name}, seed {SEED}"


def is_agreed(shelf: Shelf, manifest: ManifestFile, rows: list[Row]) -> bool:
    """Whether the index's other reader gives the same rows, or else the gate's the same files.

    Decoders differ in how they pass over what nobody asks for: a damaged list of statistics is
    refused by one that walks it and passed by its length by another. Where both of the others
    refuse, the gate lets nothing go.
    """
    try:
        return rows == shelf.expected(manifest)
    except MetadataUnreadable:
        pass
    try:
        content = shelf.store.read(manifest.path)
        listed = ListedManifest(manifest.path, manifest.bytes, len(rows))
        live = sorted(file.path for file in live_files(listed, content))
    except MetadataUnreadable:
        return True
    return live == [row[0] for row in rows if row[4] != DELETED]


def test_nothing_that_can_be_read_gives_nothing(shelf: Shelf) -> None:
    noise = shelf.put("nothing", os.urandom(500), shelf.entries("n", 60))
    assert shelf.read(noise) == {}
    assert shelf.read() == {}


# --- changes --------------------------------------------------------------------------------------


def merged(shelf: Shelf) -> tuple[list[Entry], list[Entry]]:
    new = shelf.entries("new", 40) + shelf.entries("gone", 7, DELETED)
    return new, shelf.entries("old", 9_000, EXISTING)


def test_changes_are_the_rows_that_are_not_existing(shelf: Shelf) -> None:
    new, old = merged(shelf)
    manifest = shelf.write("scattered", old[:4_000] + new[:20] + old[4_000:] + new[20:])
    found = shelf.read(manifest, changes_only=True)["scattered"]
    assert found == [row for row in shelf.expected(manifest) if row[4] != EXISTING]
    assert len(found) == 47


def test_the_front_of_a_merged_manifest_is_all_that_is_decoded(shelf: Shelf) -> None:
    """The last block is noise: who decodes all of them fails."""
    new, old = merged(shelf)
    sound = shelf.write("merged", new + old, codec="deflate")
    content = bytearray(shelf.store.read(sound.path))
    content[-40:-30] = os.urandom(10)
    manifest = shelf.put("merged", bytes(content), new + old)
    changed = sorted(entry.path for entry in new)
    front = shelf.read(manifest, changes_only=True, fronts=True)["merged"]
    assert [row[0] for row in front] == changed
    assert len(shelf.read(manifest).get("merged", ())) < len(new + old)


def test_changes_behind_the_front_are_missed_and_found_in_the_whole(shelf: Shelf) -> None:
    new, old = merged(shelf)
    manifest = shelf.write("behind", old + new)
    assert shelf.read(manifest, changes_only=True, fronts=True) == {}
    assert len(shelf.read(manifest, changes_only=True)["behind"]) == 47


def test_a_manifest_without_changes_is_not_decoded_at_all(shelf: Shelf) -> None:
    manifest = shelf.write("rewritten", shelf.entries("r", 60, EXISTING))
    assert shelf.read(manifest, changes_only=True, fronts=True) == {}
