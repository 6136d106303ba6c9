"""The facts in one metadata file: the retained snapshots are computed from them.

`metadata_parser` creates them. PyIceberg's model would drop unknown fields (`metadata_editor`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName

MAIN = "main"
LOCATION_PROPERTIES = (
    "write.data.path",
    "write.folder-storage.path",
    "write.object-storage.path",
    "write.metadata.path",
)
"""Properties that let a table write outside its location."""
STATISTICS = ("statistics", "partition-statistics")
"""The lists of a metadata document that contain statistics files by snapshot."""
ENGINE_DELETES_METADATA = "write.metadata.delete-after-commit.enabled"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot, as in the spec's `snapshots` list.

    `manifest_list` is empty for the oldest form of format 1, which lists `manifests` inline.
    """

    snapshot_id: int
    committed_at: datetime
    parent_id: int | None = None
    sequence_number: int = 0
    manifest_list: str = ""
    inline_manifests: tuple[str, ...] = ()
    summary: Mapping[str, str] = field(default_factory=dict)

    @property
    def files_key(self) -> str:
        """The comparable location of its reachable set.

        A snapshot id alone is no identity: copies share it and reference other files.
        """
        return place_key(self.place)

    @property
    def as_written(self) -> tuple[str, ...]:
        """Its list, then its inline manifests, exactly as written: shows whether it was read.

        `files_key` normalizes paths, and two objects may share one.
        """
        return (self.manifest_list, *self.inline_manifests)

    @property
    def place(self) -> str:
        """The location as the metadata writes it: its list, or its inline manifests by line."""
        return self.manifest_list or "\n".join(self.inline_manifests)

    def age_at(self, moment: datetime) -> int:
        """Returns the age of a ref that ends at a moment, in milliseconds from the commit (F-3)."""
        return max(1, (moment - self.committed_at) // timedelta(milliseconds=1))

    def instant_of_age(self, age_ms: int | None) -> datetime | None:
        """Returns when a ref with that age ends; None if never, or beyond the calendar."""
        try:
            return None if age_ms is None else self.committed_at + timedelta(milliseconds=age_ms)
        except OverflowError:
            return None

    def lies_at(self, place: str) -> bool:
        """Whether its reachable set is at a location, however that is spelled."""
        return place == self.place or place_key(place) == self.files_key


def place_key(place: str) -> str:
    """Returns the comparable form of a reachable set's location."""
    return "\n".join(location_key(path) for path in place.split("\n")) if place else ""


@dataclass(frozen=True)
class SnapshotRef:
    """A branch or tag. Ages and counts are None if the ref does not set them."""

    name: str
    snapshot_id: int
    is_branch: bool
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotLogEntry:
    """An entry of the snapshot log: from `at` on, `snapshot_id` was main's head."""

    at: datetime
    snapshot_id: int


@dataclass(frozen=True)
class StatisticsFile:
    """A statistics or partition statistics file and the snapshot it describes."""

    snapshot_id: int
    path: str
    bytes: int


@dataclass(frozen=True)
class TableMetadata:
    """A table as one metadata file describes it. Immutable, like the file.

    Attributes:
        uuid: The registration's id, an id of ours that all state about it refers to
            (`app.catalog.registrations`). As parsed it is Iceberg's UUID, which copies share.
        table_uuid: Iceberg's UUID, as in the file. Copies and second registrations have the same
            one, so nothing but the lineage of metadata files may depend on it.
        flaws: Violations of the specification that leave no doubt about what the table references.
        namesakes: Snapshots that share their id with another one: each one's key in `snapshots`,
            and that id. The first one's key is the id; the others have negative keys that no file
            contains.
    """

    name: TableName
    uuid: str
    metadata_location: str
    metadata_bytes: int
    location: str
    format_version: int
    last_updated: datetime
    snapshots: Mapping[int, Snapshot]
    refs: Mapping[str, SnapshotRef]
    snapshot_log: tuple[SnapshotLogEntry, ...]
    metadata_log: tuple[str, ...]
    statistics: tuple[StatisticsFile, ...]
    properties: Mapping[str, str]
    metadata_times: Mapping[str, datetime] = field(default_factory=dict)
    """When each file of the metadata log became current."""
    table_uuid: str = ""
    flaws: tuple[str, ...] = ()
    namesakes: Mapping[int, int] = field(default_factory=dict)

    @property
    def heads(self) -> dict[str, int]:
        """The head snapshot of each branch, by branch name."""
        return {ref.name: ref.snapshot_id for ref in self.refs.values() if ref.is_branch}

    @property
    def tags(self) -> dict[str, int]:
        """The snapshot of each tag, by the tag's name."""
        return {ref.name: ref.snapshot_id for ref in self.refs.values() if not ref.is_branch}

    def ancestry(self, snapshot_id: int) -> Iterator[Snapshot]:
        """Yields the snapshot and its ancestors, newest first, as far as the metadata has them."""
        seen: set[int] = set()
        at: int | None = snapshot_id
        while at is not None and at not in seen and (snapshot := self.snapshots.get(at)):
            seen.add(at)
            yield snapshot
            at = snapshot.parent_id

    def descends_from(self, head: int, ancestor: int) -> bool:
        """Whether `head` is `ancestor` or one of its descendants."""
        return any(s.snapshot_id == ancestor for s in self.ancestry(head))

    def continues(self, earlier: "TableMetadata") -> bool:
        """Whether this is later metadata of the same table, for example under a new name.

        If a snapshot has another location by now, its paths were rewritten and it is another table.
        """
        common = (self.snapshots.get(number) for number in earlier.snapshots)
        stay = all(s is None or s.lies_at(earlier.snapshots[s.snapshot_id].place) for s in common)
        return stay and self.leads_on(earlier.table_uuid, earlier.metadata_location)

    def leads_on(self, table_uuid: str, metadata_location: str) -> bool:
        """Whether a metadata file is this one, or is in its log.

        A copy by `rewrite_table_path` has the same UUID and a log of rewritten paths.
        """
        log = (*self.metadata_log, self.metadata_location)
        at = location_key(metadata_location)
        return table_uuid == self.table_uuid and any(location_key(path) == at for path in log)

    @property
    def current_snapshot_id(self) -> int | None:
        """Main's head; None for a table without a snapshot."""
        return self.refs[MAIN].snapshot_id if MAIN in self.refs else None

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot that a plain read returns."""
        current = self.current_snapshot_id
        return None if current is None else self.snapshots[current]

    @property
    def is_linear(self) -> bool:
        """Whether all snapshots are one history of main, with increasing sequence numbers."""
        if self.format_version == 1 or MAIN not in self.refs:
            return False
        line = list(self.ancestry(self.refs[MAIN].snapshot_id))
        numbers = [snapshot.sequence_number for snapshot in line]
        grows = all(older < newer for newer, older in pairwise(numbers))
        return len(line) == len(self.snapshots) and grows

    @property
    def owned_locations(self) -> tuple[str, ...]:
        """The folders that this table writes to now."""
        set_paths = (self.properties.get(key, "") for key in LOCATION_PROPERTIES)
        paths = (self.location, *set_paths)
        return tuple(dict.fromkeys(path for path in paths if path))

    @property
    def engine_deletes_metadata(self) -> bool:
        """Whether the engine itself deletes metadata files that leave the log."""
        flag = self.properties.get(ENGINE_DELETES_METADATA, "false")
        return flag.strip().lower() == "true"
