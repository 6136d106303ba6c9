"""Of a merged manifest only the front is read, and the whole where that does not suffice."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from meltline.adapters.ingest.ingest_job import DecodeStep, Indexed, ReadRequest, index_here
from meltline.adapters.manifests.prefix_reads import front_length, read_prefix
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.files import EntryStatus, FileKind, ManifestFile
from meltline.ports import Prefix
from tests.doubles.store import MemoryStore
from tests.lake.avro_files import Entry, manifest_bytes

ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED
PATH = "s3://lake/t/metadata/m.avro"
STEP = DecodeStep(snapshot_id=7, number=7, is_first=False)


@dataclass
class CountingStore(MemoryStore):
    """Notes how many bytes were read of what."""

    content: bytes = b""
    taken: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__({PATH: self.content})

    def read(self, path: str) -> bytes:
        found = super().read(path)
        self.taken.append(len(found))
        return found

    def read_prefix(self, path: str, length: int) -> Prefix:
        front = Prefix(self.content[:length], len(self.content))
        self.taken.append(len(front.content))
        return front


class RefusingStore(CountingStore):
    """Gives only whole objects."""

    def read_prefix(self, path: str, length: int) -> Prefix:
        raise StoreRefused("no ranges here", object=path)


def entries(prefix: str, count: int, status: EntryStatus, since: int = 7) -> list[Entry]:
    folder = f"s3://lake/t/data/{'long-' * 20}"
    return [
        Entry(f"{folder}{prefix}{n}.parquet", n, FileKind.DATA, status, 7, since)
        for n in range(count)
    ]


NEW = entries("new", 30, ADDED) + entries("gone", 9, DELETED, since=3)
OLD = entries("old", 6_000, EXISTING, since=2)


def written(rows: Sequence[Entry]) -> tuple[CountingStore, ManifestFile]:
    content = manifest_bytes(2, rows)
    assert len(content) > 800_000
    return CountingStore(content), ManifestFile(
        PATH, len(content), 30, 6_000, 9, added_snapshot_id=7, sequence_number=7
    )


def index(store: CountingStore, manifest: ManifestFile, step: DecodeStep | None = STEP) -> Indexed:
    return index_here(store, [ReadRequest("t", manifest, step)], [])


def test_of_a_merged_manifest_a_fifth_is_read_and_gives_all_that_it_changes() -> None:
    store, manifest = written(NEW + OLD)
    found = index(store, manifest)
    assert [outcome.error for outcome in found.outcomes] == [""]
    assert sorted(found.changes["path"].to_pylist()) == sorted(entry.path for entry in NEW)
    assert sum(store.taken) < manifest.bytes / 5


@pytest.mark.parametrize("rows", [OLD + NEW, NEW[:20] + OLD + NEW[20:]])
def test_changes_behind_the_front_cost_a_second_reading_and_are_found(rows: list[Entry]) -> None:
    store, manifest = written(rows)
    found = index(store, manifest)
    assert [outcome.error for outcome in found.outcomes] == [""]
    assert sorted(found.changes["path"].to_pylist()) == sorted(entry.path for entry in NEW)
    assert store.taken[1:] == [manifest.bytes]


def test_a_first_step_and_a_manifest_without_a_step_are_read_wholly() -> None:
    for step in (None, DecodeStep(7, 7, is_first=True)):
        store, manifest = written(NEW + OLD)
        found = index(store, manifest, step)
        assert found.rows.num_rows == len(OLD) + (30 if step else len(NEW))
        assert store.taken == [manifest.bytes]


@pytest.mark.parametrize("more", [-1, 1])
def test_a_manifest_of_another_length_is_refused_though_its_front_is_sound(more: int) -> None:
    store, manifest = written(NEW + OLD)
    store.content += b"\0" * max(more, 0)
    store.content = store.content[: len(store.content) + min(more, 0)]
    store.write(PATH, store.content)
    found = index(store, manifest)
    assert "bytes" in found.outcomes[0].error
    assert found.rows.num_rows == 0


@pytest.mark.parametrize(
    "rows",
    [
        NEW[1:] + entries("old", 6_001, EXISTING, since=2),
        [*entries("more", 1, ADDED), *NEW, *OLD[1:]],
        [*NEW, *entries("more", 1, ADDED), *OLD[1:]],
    ],
)
def test_a_manifest_with_other_changes_than_its_list_counts_is_to_be_read_wholly(
    rows: list[Entry],
) -> None:
    store, manifest = written(rows)
    found = index(store, manifest)
    (outcome,) = found.outcomes
    assert outcome.ambiguity and not outcome.error
    assert manifest.contradiction(outcome.counts)
    assert found.rows.num_rows == 0


@pytest.mark.parametrize("counts", [(0, 0, 0), (0, 2, 0), (1, 1, 0)])
def test_no_count_has_an_added_file_passed_over(counts: tuple[int, int, int]) -> None:
    content = manifest_bytes(2, [*entries("old", 1, EXISTING, since=2), *entries("new", 2, ADDED)])
    manifest = ManifestFile(PATH, len(content), *counts, 7, 7)
    (outcome,) = index(CountingStore(content), manifest).outcomes
    assert outcome.ambiguity and outcome.counts == (2, 1, 0)


@pytest.mark.parametrize("step", [None, STEP])
def test_where_no_list_says_how_long_a_manifest_is_its_counts_have_to_agree(
    step: DecodeStep | None,
) -> None:
    store = CountingStore(manifest_bytes(2, entries("new", 2, ADDED)))
    (outcome,) = index(store, ManifestFile(PATH, 0, 1, 0, 0, 7, 7), step).outcomes
    assert "2 ADDED entries where its list says 1" in outcome.error
    (outcome,) = index(store, ManifestFile(PATH, 0, 2, 0, 0, 7, 7), step).outcomes
    assert not outcome.error


def test_a_store_that_gives_no_part_is_asked_for_the_whole() -> None:
    store, manifest = written(NEW + OLD)
    assert not read_prefix(store, manifest).is_whole
    assert read_prefix(RefusingStore(store.content), manifest).is_whole
    with pytest.raises(FileNotFoundError):
        read_prefix(MemoryStore(), manifest)


def test_small_manifests_uncounted_ones_and_those_of_new_entries_are_read_wholly() -> None:
    merged = ManifestFile(PATH, 8_000_000, 100, 80_000, 0)
    length = front_length(merged)
    assert length is not None
    assert length < 200_000
    assert front_length(ManifestFile(PATH, 100_000, 100, 800, 0)) is None
    assert front_length(ManifestFile(PATH, 8_000_000)) is None
    assert front_length(ManifestFile(PATH, 8_000_000, 80_000, 10, 0)) is None
