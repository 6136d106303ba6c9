"""What engines do to a table of the lake: every commit writes real manifests and metadata."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from meltline.domain.iceberg.files import EntryStatus, FileKind
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import to_millis
from tests.doubles.catalog import MemoryCatalog
from tests.doubles.committer import remove_refs, remove_snapshots
from tests.doubles.manifest_files import PartitionSpec
from tests.lake.avro_files import Entry, Manifest, list_bytes, manifest_bytes

if TYPE_CHECKING:
    from tests.lake.lake import Lake

MAIN = "main"
NOWHERE = ""  # a ref that is none: the snapshot is staged

# A manifest on its way into a snapshot: one that is there already, or the entries of a new one.
Draft = Manifest | tuple[Entry, ...]


@lru_cache(maxsize=512)
def _parsed(content: bytes) -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(content)
    return document


@dataclass
class Table:
    """A table of the lake, and what engines do to it."""

    lake: "Lake"
    name: TableName

    @property
    def catalog(self) -> MemoryCatalog:
        return self.lake.catalogs[self.name.catalog]

    @property
    def metadata_location(self) -> str:
        return self.catalog.location(self.name)

    @property
    def document(self) -> dict[str, Any]:
        return self.lake.document(self.metadata_location)

    @property
    def properties(self) -> dict[str, str]:
        return dict(self._shown["properties"])

    @property
    def uuid(self) -> str:
        return str(self._shown["table-uuid"])

    @property
    def location(self) -> str:
        return str(self._shown["location"])

    @property
    def version(self) -> int:
        return int(self._shown["format-version"])

    @property
    def head(self) -> int:
        return int(self._shown["current-snapshot-id"])

    @property
    def snapshots(self) -> list[int]:
        return [snapshot["snapshot-id"] for snapshot in self._shown["snapshots"]]

    @property
    def _shown(self) -> Mapping[str, Any]:
        """The document as nobody may change it: it is parsed once, and looked at often."""
        return _parsed(self.lake.truth(self.metadata_location))

    @property
    def refs(self) -> dict[str, dict[str, Any]]:
        return dict(self.document["refs"])

    def snapshot(self, snapshot_id: int) -> dict[str, Any]:
        found = [s for s in self.document["snapshots"] if s["snapshot-id"] == snapshot_id]
        return dict(found[0])

    def data(self, name: str) -> str:
        """The path of a data file by its short name; a whole path stays as it is."""
        return name if "/" in name else f"{self.location}/data/{name}.parquet"

    def manifest_list(self, snapshot_id: int) -> str:
        return str(self.snapshot(snapshot_id)["manifest-list"])

    def manifests(self, snapshot_id: int) -> tuple[str, ...]:
        return tuple(manifest.path for manifest in self._manifests_of(snapshot_id))

    def live(self, ref: str = MAIN) -> list[Entry]:
        """The entries alive at a ref's head."""
        return [entry for manifest in self._parent_manifests(ref) for entry in manifest.live]

    # --- commits -------------------------------------------------------------------------------

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Any change of the metadata, committed as an engine commits it."""
        document = self.document
        change(document)
        assert self.catalog.commit(self.name, self.metadata_location, document) is not None

    def append(
        self,
        *files: str,
        ref: str = MAIN,
        merge: bool = False,
        summary: Mapping[str, str] | None = None,
    ) -> int:
        """Adds files; a streaming writer leaves its mark in the snapshot's summary."""
        return self.replace(add=files, ref=ref, merge=merge, summary=summary)

    def overwrite(self, *files: str) -> int:
        """Replaces everything: the old files get tombstones, as an engine writes them."""
        live = [entry.path for entry in self.live()]
        return self.replace(remove=live, add=files, operation="overwrite")

    def replace(
        self,
        *,
        remove: Iterable[str] = (),
        add: Iterable[str] = (),
        kind: FileKind = FileKind.DATA,
        kinds: Mapping[str, FileKind] | None = None,
        ref: str = MAIN,
        operation: str = "append",
        merge: bool = False,
        summary: Mapping[str, str] | None = None,
    ) -> int:
        """A commit that removes and adds files. Returns the new snapshot's id.

        Files are of one kind, save those of which `kinds` says another.

        With `merge`, small manifests become one, as `commit.manifest-merge` does it: what is
        alive in them is EXISTING, and their old tombstones are dropped.
        """
        gone = {self.data(name) for name in remove}
        snapshot_id, sequence = self._next()
        drafts: list[Draft] = []
        for parent in self._parent_manifests(ref):
            if gone & {entry.path for entry in parent.live}:
                drafts.append(_without(parent, gone, snapshot_id))
            elif parent.live:
                drafts.append(parent)
        kind_of = kinds or {}
        if added := tuple(
            self._new_file(name, kind_of.get(name, kind), snapshot_id, sequence) for name in add
        ):
            drafts.append(added)
        drafts = _merged(drafts) if merge else drafts
        self._commit(snapshot_id, sequence, drafts, ref, operation, summary=summary or {})
        return snapshot_id

    def stage(self, *files: str) -> int:
        """Write-audit-publish: a snapshot on main's head that no ref points at."""
        return self.replace(add=files, ref=NOWHERE)

    def rewrite_manifests(self) -> int:
        """Puts all live entries into new manifests; no file is added or removed."""
        snapshot_id, sequence = self._next()
        live = [entry.turned(EntryStatus.EXISTING) for entry in self.live()]
        drafts: list[Draft] = [
            found
            for is_data in (True, False)
            if (found := tuple(e for e in live if (e.kind is FileKind.DATA) is is_data))
        ]
        self._commit(snapshot_id, sequence, drafts, MAIN, "replace")
        return snapshot_id

    def compact(self, *files: str) -> int:
        """Rewrites all live data into the given files; delete files go with what they were for."""
        live = [entry.path for entry in self.live()]
        return self.replace(remove=live, add=files, operation="replace")

    def delete_rows(self, vector: str, *, kind: FileKind, count: int = 1) -> int:
        """Adds a delete file; `count` entries may share one Puffin file."""
        return self.replace(add=[vector] * count, kind=kind, operation="delete")

    def cherry_pick(self, snapshot_id: int) -> int:
        """Publishes an append: itself where its parent is the head, else its files once more."""
        picked = self.snapshot(snapshot_id)
        if picked.get("parent-snapshot-id") == self.refs.get(MAIN, {}).get("snapshot-id"):
            self.point(MAIN, snapshot_id)
            return snapshot_id
        own = [m for m in self._manifests_of(snapshot_id) if m.snapshot_id == snapshot_id]
        added = {e.path for m in own for e in m.entries if e.status is EntryStatus.ADDED}
        return self.append(*sorted(added))

    def start_over(self, *files: str) -> int:
        """CREATE OR REPLACE TABLE … AS: a head without a parent, and a log that begins anew."""
        snapshot_id, sequence = self._next()
        added = tuple(self._new_file(n, FileKind.DATA, snapshot_id, sequence) for n in files)
        self._commit(snapshot_id, sequence, [added], MAIN, "append", start_over=True)
        return snapshot_id

    # --- refs ----------------------------------------------------------------------------------

    def tag(self, name: str, snapshot_id: int, **more: int) -> None:
        ref = {"type": "tag", "snapshot-id": snapshot_id, **more}
        self.edit(lambda document: document["refs"].update({name: ref}))

    def branch(self, name: str, snapshot_id: int, **more: int) -> None:
        ref = {"type": "branch", "snapshot-id": snapshot_id, **more}
        self.edit(lambda document: document["refs"].update({name: ref}))

    def drop_ref(self, name: str) -> None:
        self.edit(lambda document: document["refs"].pop(name))

    def point(self, branch: str, snapshot_id: int) -> None:
        """Moves a branch to another snapshot: a rollback, or a fast-forward."""

        def change(document: dict[str, Any]) -> None:
            document["refs"].setdefault(branch, {"type": "branch"})["snapshot-id"] = snapshot_id
            if branch == MAIN:
                document["current-snapshot-id"] = snapshot_id
                now = to_millis(self.lake.clock.now())
                document["snapshot-log"].append({"timestamp-ms": now, "snapshot-id": snapshot_id})

        self.edit(change)

    def rollback(self, snapshot_id: int) -> None:
        self.point(MAIN, snapshot_id)

    def fast_forward(self, branch: str, to: str) -> None:
        self.point(branch, self.refs[to]["snapshot-id"])

    # --- other changes of the metadata ---------------------------------------------------------

    def configure(self, **properties: str) -> None:
        """Sets properties; in the keyword `__` stands for a dot and `_` for a hyphen."""
        found = {
            key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()
        }
        self.edit(lambda document: document["properties"].update(found))

    def unset(self, key: str) -> None:
        self.edit(lambda document: document["properties"].pop(key, None))

    def statistics(self, snapshot_id: int) -> str:
        """Adds a statistics file for a snapshot. Returns its path."""
        path = f"{self.location}/metadata/{snapshot_id}.stats"
        self.lake.store.write(path, b"s" * 50)
        file = {
            "snapshot-id": snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": 50,
            "file-footer-size-in-bytes": 10,
            "blob-metadata": [],
        }
        self.edit(lambda document: document["statistics"].append(file))
        return path

    def expire_elsewhere(self, *snapshot_ids: int) -> None:
        """Another tool expires snapshots and leaves their files."""
        self.edit(lambda document: remove_snapshots(document, frozenset(snapshot_ids)))

    def drop(self) -> None:
        self.catalog.drop(self.name)

    # --- how a commit is made --------------------------------------------------------------------

    def _next(self) -> tuple[int, int]:
        """The next snapshot's id and sequence number."""
        return self.lake.next_id(), self.document.get("last-sequence-number", 0) + 1

    def _manifests_of(self, snapshot_id: int) -> tuple[Manifest, ...]:
        return self.lake.manifests_of(self.snapshot(snapshot_id))

    def _parent_manifests(self, ref: str) -> tuple[Manifest, ...]:
        found = self.refs.get(ref or MAIN)
        return () if found is None else self._manifests_of(found["snapshot-id"])

    def _new_file(self, name: str, kind: FileKind, snapshot_id: int, sequence: int) -> Entry:
        path = self.data(name)
        size = self.lake.store.size(path)  # that of a copy's file is its original's
        if size is None:
            size = 100 + len(path)
            self.lake.store.write(path, b"d" * size)
        facts = self.lake.facts.get(path)
        return Entry(path, size, kind, EntryStatus.ADDED, snapshot_id, sequence, facts)

    def _write_manifest(
        self, entries: Sequence[Entry], snapshot_id: int, sequence: int, number: int
    ) -> Manifest:
        path = f"{self.location}/metadata/{snapshot_id}-m{number}.avro"
        content = manifest_bytes(self.version, entries)
        self.lake.store.write(path, content)
        return Manifest(path, len(content), snapshot_id, sequence, tuple(entries))

    def _commit(
        self,
        snapshot_id: int,
        sequence: int,
        drafts: Sequence[Draft],
        ref: str,
        operation: str,
        start_over: bool = False,
        summary: Mapping[str, str] | None = None,
    ) -> None:
        manifests = [
            draft
            if isinstance(draft, Manifest)
            else self._write_manifest(draft, snapshot_id, sequence, number)
            for number, draft in enumerate(_by_spec(drafts))
        ]
        path = f"{self.location}/metadata/snap-{snapshot_id}-1-m.avro"
        self.lake.store.write(path, list_bytes(self.version, manifests))
        self.lake.manifests[path] = tuple(manifests)
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "timestamp-ms": to_millis(self.lake.clock.now()),
            "manifest-list": path,
            "schema-id": 0,
            "summary": {"operation": operation, **_totals(manifests), **(summary or {})},
        }
        if self.version > 1:
            snapshot["sequence-number"] = sequence
        if self.version == 3:
            snapshot |= {"first-row-id": 0, "added-rows": 0}

        def change(document: dict[str, Any]) -> None:
            if start_over:
                remove_refs(document, [MAIN])
            _add_snapshot(document, snapshot, ref)

        self.edit(change)


def _without(parent: Manifest, gone: set[str], snapshot_id: int) -> tuple[Entry, ...]:
    return tuple(
        entry.turned(EntryStatus.DELETED, snapshot_id)
        if entry.path in gone
        else entry.turned(EntryStatus.EXISTING)
        for entry in parent.live
    )


def _merged(drafts: Sequence[Draft]) -> list[Draft]:
    """One manifest of data and one of deletes, without the tombstones of earlier snapshots."""
    merged: list[Draft] = []
    for is_data in (True, False):
        kin = [d for d in drafts if (_entries(d)[0].kind is FileKind.DATA) is is_data]
        if len(kin) < 2:
            merged += kin
            continue
        merged.append(
            tuple(
                entry.turned(EntryStatus.EXISTING) if isinstance(draft, Manifest) else entry
                for draft in kin
                for entry in (draft.live if isinstance(draft, Manifest) else draft)
            )
        )
    return merged


def _entries(draft: Draft) -> tuple[Entry, ...]:
    return draft.entries if isinstance(draft, Manifest) else draft


def _by_spec(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """A manifest has the files of one partition spec, and either data or deletes."""
    for draft in drafts:
        if isinstance(draft, Manifest):
            yield draft
            continue
        for part in dict.fromkeys(map(_part, draft)):
            yield tuple(entry for entry in draft if _part(entry) == part)


def _part(entry: Entry) -> tuple[PartitionSpec, bool]:
    return entry.spec, entry.kind is FileKind.DATA


def _totals(manifests: Iterable[Manifest]) -> Mapping[str, str]:
    live = [entry for manifest in manifests for entry in manifest.live]
    data = sum(entry.kind is FileKind.DATA for entry in live)
    totals = {"total-data-files": str(data), "total-delete-files": str(len(live) - data)}
    if live and all(entry.facts for entry in live):
        rows = sum(entry.rows for entry in live if entry.kind is FileKind.DATA)
        totals["total-records"] = str(rows)
    return totals


def _add_snapshot(document: dict[str, Any], snapshot: dict[str, Any], ref: str) -> None:
    refs = document["refs"]
    if (parent := refs.get(ref or MAIN)) is not None:
        snapshot["parent-snapshot-id"] = parent["snapshot-id"]
    document["snapshots"].append(snapshot)
    if "sequence-number" in snapshot:
        document["last-sequence-number"] = snapshot["sequence-number"]
    if ref == NOWHERE:
        return
    refs.setdefault(ref, {"type": "branch"})["snapshot-id"] = snapshot["snapshot-id"]
    if ref == MAIN:
        document["current-snapshot-id"] = snapshot["snapshot-id"]
        entry = {"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": snapshot["snapshot-id"]}
        document["snapshot-log"].append(entry)


def new_document(version: int, uuid: str, location: str, now: int) -> dict[str, Any]:
    """The metadata of an empty table with one column.

    Args:
        version: The format's version.
        uuid: The table's UUID.
        location: Its folder.
        now: When it is made, in milliseconds since 1970.
    """
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
    }
    document: dict[str, Any] = {
        "format-version": version,
        "table-uuid": uuid,
        "location": location,
        "last-updated-ms": now,
        "last-column-id": 1,
        "schemas": [schema],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "current-snapshot-id": -1,
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
        "statistics": [],
        "partition-statistics": [],
    }
    if version == 1:
        document |= {"schema": schema, "partition-spec": []}
    else:
        document["last-sequence-number"] = 0
    if version == 3:
        document["next-row-id"] = 0
    return document
