"""Parses a metadata document into facts; refuses a document that does not follow the spec.

Equal values are shared objects, to save memory. A summary has a dozen entries, most of them alike.
An id occurs in a snapshot, in its child and in the snapshot log, and a commit's time in two of
them.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from meltline.domain.errors import FormatUnsupported, MetadataUnreadable
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import (
    LOCATION_PROPERTIES,
    MAIN,
    STATISTICS,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
    TableMetadata,
)
from meltline.domain.units import from_millis


class SnapshotSummary(Mapping[str, str]):
    """A snapshot's summary. Snapshots with the same keys share one tuple of keys."""

    __slots__ = ("_keys", "_values")

    def __init__(self, keys: tuple[str, ...], values: tuple[str, ...]) -> None:
        self._keys = keys
        self._values = values

    def __getitem__(self, key: str) -> str:
        try:
            return self._values[self._keys.index(key)]
        except ValueError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return repr(dict(self))


class SharedFacts:
    """Creates the facts of one metadata file; equal ones are one object."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._texts: dict[str, str] = {}
        self._ids: dict[int, int] = {}
        self._instants: dict[int, datetime] = {}

    def id(self, snapshot_id: int) -> int:
        """Returns the shared object of an id."""
        return self._ids.setdefault(snapshot_id, snapshot_id)

    def instant(self, millis: int) -> datetime:
        """Returns the instant of a number of milliseconds since 1970."""
        if millis not in self._instants:
            self._instants[millis] = from_millis(millis)
        return self._instants[millis]

    def summary(self, raw: Mapping[object, object]) -> SnapshotSummary:
        """Returns the summary in the spec's JSON; other values are converted to text."""
        keys = tuple(map(str, raw))
        values = (str(text) for text in raw.values())
        shared = tuple(self._texts.setdefault(text, text) for text in values)
        return SnapshotSummary(self._keys.setdefault(keys, keys), shared)


_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.ASCII)

NEWEST_FORMAT = 3


def parse_table(
    name: TableName, location: str, size: int, document: object, *, with_namesakes: bool = False
) -> TableMetadata:
    """Parses a metadata document into facts, or raises why it cannot be trusted.

    Args:
        name: The table's name in the catalog.
        location: The path of the metadata file.
        size: The metadata file's length in bytes.
        document: The parsed JSON.
        with_namesakes: Whether snapshots may share an id, for callers that need a table's files.

    Raises:
        FormatUnsupported: A format above 3, or encryption.
        MetadataUnreadable: A required field is missing or invalid, or the current snapshot is
            missing.
    """
    try:
        state = _parse(name, location, size, document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise broken_spec(name, location, f"{type(error).__name__}: {error}") from error
    if state.namesakes and not with_namesakes:
        raise equal_ids(state)
    return state


def equal_ids(state: TableMetadata) -> MetadataUnreadable:
    """Builds the error for a table in which two snapshots have one id."""
    ids = ", ".join(map(str, sorted({*state.namesakes.values()})))
    return MetadataUnreadable(
        f"{state.name}: two snapshots have the id {ids}",
        object=state.metadata_location,
        expected="an id for each snapshot",
        found=f"two or more with the id {ids}",
        next="register its last metadata file without them; until then its files are kept",
    )


def broken_spec(name: TableName, location: str, found: str) -> MetadataUnreadable:
    """Builds the error for a metadata document that does not follow the specification."""
    return MetadataUnreadable(
        f"{name}: the metadata file does not follow the Iceberg spec",
        object=location,
        expected="table metadata of format 1, 2 or 3",
        found=found,
        next="read the table with another engine; restore the file, or drop the table",
    )


def _parse(name: TableName, location: str, size: int, document: object) -> TableMetadata:
    if not isinstance(document, dict):
        raise TypeError(f"a JSON object was expected, not {type(document).__name__}")
    properties = {str(k): str(v) for k, v in (document.get("properties") or {}).items()}
    _refuse_unsupported(name, location, document, properties)
    version = int(document["format-version"])
    shared = SharedFacts()
    snapshots, namesakes = _snapshots(document, version, shared)
    uuid = _identity(document, version)
    refs, flaws = _refs(document, snapshots)
    return TableMetadata(
        name=name,
        uuid=uuid,
        table_uuid=uuid,
        metadata_location=location,
        metadata_bytes=size,
        location=_text(document["location"]),
        format_version=version,
        last_updated=from_millis(_whole(document["last-updated-ms"])),
        snapshots=snapshots,
        refs=refs,
        flaws=flaws,
        namesakes=namesakes,
        snapshot_log=_snapshot_log(document, shared),
        metadata_log=tuple(_text(e["metadata-file"]) for e in _listed(document, "metadata-log")),
        statistics=tuple(_statistics(document)),
        properties=properties,
        metadata_times={
            _text(e["metadata-file"]): from_millis(_whole(e["timestamp-ms"]))
            for e in _listed(document, "metadata-log")
        },
    )


def stated_locations(location: str, document: Mapping[str, object]) -> tuple[str, ...]:
    """Returns the folders that the metadata of an unsupported table names as its own.

    Its format may omit its location, or make a path relative to it: then the result is empty.

    Args:
        location: The path of its metadata file: that folder is among them.
        document: The parsed JSON.
    """
    properties = document.get("properties") or {}
    paths = [document.get("location")]
    if isinstance(properties, Mapping):
        paths += [properties[key] for key in LOCATION_PROPERTIES if properties.get(key)]
    stated = [path for path in paths if isinstance(path, str) and ":" in path]
    return (*stated, location.rpartition("/")[0]) if len(stated) == len(paths) else ()


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
) -> tuple[dict[int, Snapshot], dict[int, int]]:
    """Returns the snapshots by key, and those whose id another one has too."""
    listed = [_snapshot(raw, version, shared) for raw in _listed(document, "snapshots")]
    snapshots: dict[int, Snapshot] = {}
    namesakes: dict[int, int] = {}
    free = min([snapshot.snapshot_id for snapshot in listed] + [-1])  # -1 is no snapshot's key
    for snapshot in listed:
        key = id = snapshot.snapshot_id
        if id in snapshots:
            key = free = free - 1
            namesakes |= {id: id, key: id}
        snapshots[key] = replace(snapshot, snapshot_id=key) if key != id else snapshot
    return snapshots, namesakes


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
    """Returns a snapshot's manifest list, or in the oldest form of format 1 its manifests."""
    inline: tuple[str, ...] = ()
    manifest_list = ""
    if version == 1 and "manifest-list" not in raw:
        inline = tuple(_text(path) for path in _listed(raw, "manifests", required=True))
    else:
        manifest_list = _text(raw["manifest-list"])
    if any("\n" in path for path in (manifest_list, *inline)):  # `place` has a path a line
        raise ValueError(f"snapshot {raw['snapshot-id']} has a line break in a path")
    return manifest_list, inline


def _refs(
    document: Mapping[str, object], snapshots: Collection[int]
) -> tuple[dict[str, SnapshotRef], tuple[str, ...]]:
    """Returns the refs, and the flaws of some that are readable all the same.

    A ref whose snapshot is missing keeps nothing, and is left out.
    """
    listed = dict(document.get("refs") or {})  # type: ignore[call-overload]
    refs = {name: _ref(name, raw) for name, raw in listed.items()}
    current = document.get("current-snapshot-id")
    if current is not None and MAIN not in refs and current != -1:
        refs[MAIN] = SnapshotRef(MAIN, _whole(current), is_branch=True)
    if current is not None and MAIN in refs and refs[MAIN].snapshot_id != current:
        raise ValueError(f"main is {refs[MAIN].snapshot_id}, current-snapshot-id is {current}")
    if MAIN in refs and refs[MAIN].snapshot_id not in snapshots:
        raise ValueError(f"main names snapshot {refs[MAIN].snapshot_id}, which is not there")
    flaws = [
        f"ref {ref.name} names snapshot {ref.snapshot_id}, which is not there"
        for ref in refs.values()
        if ref.snapshot_id not in snapshots
    ]
    if MAIN in refs and not refs[MAIN].is_branch:
        flaws.append("main is a tag")
    return {name: r for name, r in refs.items() if r.snapshot_id in snapshots}, tuple(flaws)


def _ref(name: str, raw: Mapping[str, object]) -> SnapshotRef:
    kind = str(raw["type"]).lower()
    if kind not in ("branch", "tag"):
        raise ValueError(f"ref {name} is a {kind}")
    return SnapshotRef(
        name=name,
        snapshot_id=_whole(raw["snapshot-id"]),
        is_branch=kind == "branch",
        max_ref_age_ms=_optional(raw.get("max-ref-age-ms")),
        max_snapshot_age_ms=_optional(raw.get("max-snapshot-age-ms")),
        min_snapshots_to_keep=_optional(raw.get("min-snapshots-to-keep")),
    )


def _statistics(document: Mapping[str, object]) -> Iterator[StatisticsFile]:
    for key in STATISTICS:
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
