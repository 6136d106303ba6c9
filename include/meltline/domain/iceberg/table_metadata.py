"""What one metadata file says about a table: the facts the keep set is computed from."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from meltline.domain.errors import FormatUnsupported, MetadataUnreadable
from meltline.domain.iceberg.interning import SharedFacts
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import from_millis

_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.ASCII)

MAIN = "main"
NEWEST_FORMAT = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot, as the spec's `snapshots` list holds it.

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
        """Where its reachable set is written down, in the form in which locations are compared.

        A snapshot id alone says nothing: copies share it and refer to other files.
        """
        return place_key(self.place)

    @property
    def as_written(self) -> tuple[str, ...]:
        """Its list, then its inline manifests, letter by letter: what tells whether it was read.

        `files_key` evens out how places are spelled, and two objects may share one.
        """
        return (self.manifest_list, *self.inline_manifests)

    @property
    def place(self) -> str:
        """The same as the metadata writes it: its list, or its inline manifests by line."""
        return self.manifest_list or "\n".join(self.inline_manifests)

    def age_at(self, moment: datetime) -> int:
        """A ref's age in milliseconds that ends it then: Iceberg counts from the commit (F-3)."""
        return max(1, (moment - self.committed_at) // timedelta(milliseconds=1))

    def instant_of_age(self, age_ms: int | None) -> datetime | None:
        """When a ref of that age on it ends; None where that is never, or beyond the calendar."""
        try:
            return None if age_ms is None else self.committed_at + timedelta(milliseconds=age_ms)
        except OverflowError:
            return None

    def lies_at(self, place: str) -> bool:
        """Whether its reachable set is written down at a place, however that is spelled."""
        return place == self.place or place_key(place) == self.files_key


def place_key(place: str) -> str:
    """The form in which places of reachable sets are compared."""
    return "\n".join(location_key(path) for path in place.split("\n")) if place else ""


@dataclass(frozen=True)
class SnapshotRef:
    """A branch or tag. Ages and counts are None where the ref does not set them."""

    name: str
    snapshot_id: int
    is_branch: bool
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotLogEntry:
    """From `at` on, `snapshot_id` was main's head."""

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
        uuid: Of which registration it is: an id of ours, by which all state about it is kept
            (`app.catalog.registrations`). As parsed it is Iceberg's UUID, which copies share.
        table_uuid: Iceberg's UUID, as the file says it. Copies and second registrations have the
            same one, so nothing may hang on it but the lineage of metadata files.
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
    """From when each file of the metadata log was the current one."""
    table_uuid: str = ""

    @property
    def heads(self) -> dict[str, int]:
        """Each branch's head snapshot, by branch name."""
        return {ref.name: ref.snapshot_id for ref in self.refs.values() if ref.is_branch}

    @property
    def tags(self) -> dict[str, int]:
        """Each tag's snapshot, by the tag's name."""
        return {ref.name: ref.snapshot_id for ref in self.refs.values() if not ref.is_branch}

    def ancestry(self, snapshot_id: int) -> Iterator[Snapshot]:
        """The snapshot and its ancestors, newest first, as far as the metadata knows them."""
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
        """Whether this is the same line of metadata, later on: under a new name, say.

        Where a snapshot lies elsewhere by now, its paths were rewritten and it is another.
        """
        common = (self.snapshots.get(number) for number in earlier.snapshots)
        stay = all(s is None or s.lies_at(earlier.snapshots[s.snapshot_id].place) for s in common)
        return stay and self.leads_on(earlier.table_uuid, earlier.metadata_location)

    def leads_on(self, table_uuid: str, metadata_location: str) -> bool:
        """Whether a metadata file is this one, or stands in its log.

        A copy by `rewrite_table_path` has the same UUID and a log of rewritten paths.
        """
        log = (*self.metadata_log, self.metadata_location)
        at = location_key(metadata_location)
        return table_uuid == self.table_uuid and any(location_key(path) == at for path in log)

    @property
    def current_snapshot_id(self) -> int | None:
        """What main shows; None of a table without a snapshot."""
        return self.refs[MAIN].snapshot_id if MAIN in self.refs else None

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot that a plain read sees."""
        current = self.current_snapshot_id
        return None if current is None else self.snapshots[current]

    @property
    def is_linear(self) -> bool:
        """Whether all snapshots are one line that ends at main, with numbers that grow along it."""
        if self.format_version == 1 or MAIN not in self.refs:
            return False
        line = list(self.ancestry(self.refs[MAIN].snapshot_id))
        numbers = [snapshot.sequence_number for snapshot in line]
        grows = all(older < newer for newer, older in pairwise(numbers))
        return len(line) == len(self.snapshots) and grows

    @property
    def owned_locations(self) -> tuple[str, ...]:
        """The folders this table writes to now."""
        paths = (
            self.location,
            self.properties.get("write.data.path", ""),
            self.properties.get("write.folder-storage.path", ""),
            self.properties.get("write.object-storage.path", ""),
            self.properties.get("write.metadata.path", ""),
        )
        return tuple(dict.fromkeys(path for path in paths if path))

    @property
    def engine_deletes_metadata(self) -> bool:
        """Whether the engine itself deletes metadata files that leave the log."""
        flag = self.properties.get("write.metadata.delete-after-commit.enabled", "false")
        return flag.strip().lower() == "true"


def parse_table(name: TableName, location: str, size: int, document: object) -> TableMetadata:
    """Reads a metadata document into facts, or says why it cannot be trusted.

    Args:
        name: Under which name the catalog has it.
        location: Where the metadata file lies.
        size: The metadata file's length in bytes.
        document: The parsed JSON.

    Raises:
        FormatUnsupported: A format above 3, or encryption.
        MetadataUnreadable: A required field is missing or of the wrong shape, or a ref or the
            current snapshot names a snapshot that is not there.
    """
    try:
        return _parse(name, location, size, document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MetadataUnreadable(
            f"{name}: the metadata file does not follow the Iceberg spec",
            object=location,
            expected="table metadata of format 1, 2 or 3",
            found=f"{type(error).__name__}: {error}",
            next="read the table with another engine; restore the file, or drop the table",
        ) from error


def _parse(name: TableName, location: str, size: int, document: object) -> TableMetadata:
    if not isinstance(document, dict):
        raise TypeError(f"a JSON object was expected, not {type(document).__name__}")
    properties = {str(k): str(v) for k, v in (document.get("properties") or {}).items()}
    _refuse_unsupported(name, location, document, properties)
    version = int(document["format-version"])
    shared = SharedFacts()
    snapshots = _snapshots(document, version, shared)
    uuid = _identity(document, version)
    state = TableMetadata(
        name=name,
        uuid=uuid,
        table_uuid=uuid,
        metadata_location=location,
        metadata_bytes=size,
        location=_text(document["location"]),
        format_version=version,
        last_updated=from_millis(_whole(document["last-updated-ms"])),
        snapshots=snapshots,
        refs=_refs(document),
        snapshot_log=_snapshot_log(document, shared),
        metadata_log=tuple(_text(e["metadata-file"]) for e in _listed(document, "metadata-log")),
        statistics=tuple(_statistics(document)),
        properties=properties,
        metadata_times={
            _text(e["metadata-file"]): from_millis(_whole(e["timestamp-ms"]))
            for e in _listed(document, "metadata-log")
        },
    )
    for ref in state.refs.values():
        if ref.snapshot_id not in snapshots:
            raise ValueError(f"ref {ref.name} names snapshot {ref.snapshot_id}, which is not there")
    return state


def _refuse_unsupported(
    name: TableName, location: str, document: Mapping[str, object], properties: Mapping[str, str]
) -> None:
    version = document["format-version"]
    unsupported = ""
    if type(version) is not int or not 1 <= version <= NEWEST_FORMAT:
        unsupported = f"format {version}"
    elif document.get("encryption-keys") or "encryption.key-id" in properties:
        unsupported = "an encrypted table"
    if unsupported:
        raise FormatUnsupported(
            f"{name} is {unsupported}: Meltline does not handle it",
            object=location,
            expected=f"formats 1 to {NEWEST_FORMAT}, not encrypted",
            found=unsupported,
            next="nothing of it or of tables that share its files is touched; maintain it yourself",
        )


def _identity(document: Mapping[str, object], version: int) -> str:
    # Format 1 allows tables without a UUID; the location is then the only lasting identity.
    if version == 1 and document.get("table-uuid") is None:
        return f"location:{_text(document['location'])}"
    uuid = _text(document["table-uuid"])
    if not _UUID.fullmatch(uuid):
        raise ValueError(f"table-uuid {uuid!r} is no UUID")
    return uuid


def _snapshots(
    document: Mapping[str, object], version: int, shared: SharedFacts
) -> dict[int, Snapshot]:
    listed = [_snapshot(raw, version, shared) for raw in _listed(document, "snapshots")]
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in listed}
    if len(snapshots) < len(listed):
        raise ValueError("two snapshots have one id")
    return snapshots


def _snapshot_log(
    document: Mapping[str, object], shared: SharedFacts
) -> tuple[SnapshotLogEntry, ...]:
    return tuple(
        SnapshotLogEntry(
            shared.instant(_whole(logged["timestamp-ms"])),
            shared.id(_whole(logged["snapshot-id"])),
        )
        for logged in _listed(document, "snapshot-log")
    )


def _snapshot(raw: Mapping[str, object], version: int, shared: SharedFacts) -> Snapshot:
    parent = raw.get("parent-snapshot-id")
    if raw.get("key-id") is not None:
        raise ValueError(f"snapshot {raw['snapshot-id']} is encrypted")
    manifest_list, inline = _manifests(raw, version)
    return Snapshot(
        snapshot_id=shared.id(_whole(raw["snapshot-id"])),
        committed_at=shared.instant(_whole(raw["timestamp-ms"])),
        parent_id=None if parent is None or parent == -1 else shared.id(_whole(parent)),
        sequence_number=_whole(raw.get("sequence-number") or 0),
        manifest_list=manifest_list,
        inline_manifests=inline,
        summary=shared.summary(dict(raw.get("summary") or {})),  # type: ignore[call-overload]
    )


def _manifests(raw: Mapping[str, object], version: int) -> tuple[str, tuple[str, ...]]:
    """A snapshot's manifest list, or in the oldest form of format 1 its manifests."""
    inline: tuple[str, ...] = ()
    manifest_list = ""
    if version == 1 and "manifest-list" not in raw:
        inline = tuple(_text(path) for path in _listed(raw, "manifests", required=True))
    else:
        manifest_list = _text(raw["manifest-list"])
    if any("\n" in path for path in (manifest_list, *inline)):  # `place` has a path a line
        raise ValueError(f"snapshot {raw['snapshot-id']} has a line break in a path")
    return manifest_list, inline


def _refs(document: Mapping[str, object]) -> dict[str, SnapshotRef]:
    listed = dict(document.get("refs") or {})  # type: ignore[call-overload]
    refs = {name: _ref(name, raw) for name, raw in listed.items()}
    current = document.get("current-snapshot-id")
    if current is None:
        return refs
    if MAIN not in refs and current != -1:
        refs[MAIN] = SnapshotRef(MAIN, _whole(current), is_branch=True)
    if MAIN in refs and refs[MAIN].snapshot_id != current:
        raise ValueError(f"main is {refs[MAIN].snapshot_id}, current-snapshot-id is {current}")
    return refs


def _ref(name: str, raw: Mapping[str, object]) -> SnapshotRef:
    kind = str(raw["type"]).lower()
    if kind not in ("branch", "tag"):
        raise ValueError(f"ref {name} is a {kind}")
    if name == MAIN and kind != "branch":
        raise ValueError("main is a tag")
    return SnapshotRef(
        name=name,
        snapshot_id=_whole(raw["snapshot-id"]),
        is_branch=kind == "branch",
        max_ref_age_ms=_optional(raw.get("max-ref-age-ms")),
        max_snapshot_age_ms=_optional(raw.get("max-snapshot-age-ms")),
        min_snapshots_to_keep=_optional(raw.get("min-snapshots-to-keep")),
    )


def _statistics(document: Mapping[str, object]) -> Iterator[StatisticsFile]:
    for key in ("statistics", "partition-statistics"):
        for raw in _listed(document, key):
            yield StatisticsFile(
                _whole(raw["snapshot-id"]),
                _text(raw["statistics-path"]),
                _whole(raw["file-size-in-bytes"]),
            )


def _listed(raw: Mapping[str, object], key: str, *, required: bool = False) -> list[Any]:
    records = raw[key] if required else raw.get(key)
    if records is None and not required:
        return []
    if not isinstance(records, list):
        raise TypeError(f"{key}: a list was expected, not {records!r}")
    return records


def _text(raw: object) -> str:
    if not isinstance(raw, str) or not raw:
        raise TypeError(f"a text was expected, not {raw!r}")
    return raw


def _whole(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise TypeError(f"a whole number was expected, not {raw!r}")
    return raw


def _optional(raw: object) -> int | None:
    return None if raw is None else _whole(raw)
