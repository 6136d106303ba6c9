"""Reads a hot table and its cold counterpart, and registers archived snapshots in cold.

`archive` calls it for each request; only this module changes the cold catalog.
"""

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol
from uuid import uuid4

from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.rewriting.manifests import ColdManifest, listed_manifests
from meltline.domain.archive.archive import COLD_OF, ArchivedSnapshot, read_archived
from meltline.domain.archive.cold_document import (
    Addition,
    Registration,
    first_document,
    with_snapshots,
)
from meltline.domain.archive.cold_owner import require_same_installation
from meltline.domain.archive.seals import sealing, with_seal
from meltline.domain.clock import Clock
from meltline.domain.errors import MetadataUnreadable, NameConflict, StoreRefused, TableNotFound
from meltline.domain.iceberg.metadata_editor import (
    MetadataEditor,
    NextMetadata,
    first_file,
    parse_json,
)
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot, StatisticsFile, TableMetadata
from meltline.ports import HandoffRequest, NewTable, TableEdit


@dataclass(frozen=True)
class TablePair:
    """A hot table whose snapshots are archived, with its cold counterpart.

    Attributes:
        request: The handoff request.
        document: The hot table's metadata, in full.
        cold: The cold table, if it exists.
    """

    request: HandoffRequest
    document: Mapping[str, Any]
    cold: TableMetadata | None

    @property
    def name(self) -> TableName:
        """The hot table's name."""
        return self.request.hot.name

    @cached_property
    def snapshots(self) -> Mapping[int, Mapping[str, Any]]:
        """The snapshots in hot's metadata, by id."""
        return {snapshot["snapshot-id"]: snapshot for snapshot in self.document["snapshots"]}

    def statistics(self, snapshot_id: int) -> list[StatisticsFile]:
        """Returns the statistics files of a snapshot."""
        return [file for file in self.request.hot.statistics if file.snapshot_id == snapshot_id]

    @cached_property
    def archived(self) -> Mapping[int, ArchivedSnapshot]:
        """Returns the snapshots that cold has, as its metadata records them."""
        copies = [] if self.cold is None else read_archived(self.cold, self.name)
        return {copy.snapshot_id: copy for copy in copies}

    def neighbours(self) -> Iterator[Snapshot]:
        """Yields cold's snapshots next to the requested ones: they share the most files."""
        snapshots = sorted(self.cold.snapshots.values(), key=_age) if self.cold else []
        ages = [_age(snapshot) for snapshot in snapshots]
        at = {bisect(ages, _age(chosen.snapshot)) for chosen in self.request.snapshots}
        for place in sorted({side for index in at for side in (index - 1, index)}):
            if 0 <= place < len(snapshots):
                yield snapshots[place]


def _age(snapshot: Snapshot) -> tuple[datetime, int]:
    return snapshot.committed_at, snapshot.snapshot_id


class ColdCatalog(Protocol):
    """The part of the cold catalog that the archive uses: see `Catalog` and its related ports."""

    def location(self, name: TableName) -> str: ...

    def create(self, tables: Sequence[NewTable]) -> Mapping[TableName, str]: ...

    def edit_table(self, name: TableName, edit: TableEdit) -> str: ...


class ColdTables:
    """Reads and writes the archive's tables in the cold catalog.

    Args:
        stores: The hot and the cold store.
        catalog: The cold catalog.
        clock: Dates the verification.
    """

    def __init__(self, stores: Stores, catalog: ColdCatalog, clock: Clock) -> None:
        self._stores = stores
        self._catalog = catalog
        self._clock = clock

    def open(self, request: HandoffRequest) -> TablePair:
        """Reads both tables' metadata.

        Raises:
            NameConflict: The cold name has the history of another table.
            MetadataUnreadable: Either cannot be read, or is of a kind that is left alone.
            FileNotFoundError: A metadata file does not exist.
            StoreRefused: It cannot be read.
        """
        hot = request.hot
        content = self._stores.read(hot.metadata_location)
        document = parse_json(hot.name, hot.metadata_location, content)
        parse_table(hot.name, hot.metadata_location, len(content), document)
        assert isinstance(document, dict)  # parse_table refuses all else
        try:
            location = self._catalog.location(request.cold)
        except TableNotFound:
            return TablePair(request, document, None)
        content = self._stores.cold.read(location)
        cold = MetadataEditor.read(request.cold, location, content, self._clock.now()).state
        _require_ours(request, cold)
        return TablePair(request, document, cold)

    def known_manifests(self, table: TablePair) -> dict[str, ColdManifest]:
        """Returns manifests that cold certainly has, by path: registered snapshots reference them.

        An unreadable list contributes none; then more is read from hot.
        """
        manifests: dict[str, ColdManifest] = {}
        for snapshot in table.neighbours():
            with suppress(MetadataUnreadable, FileNotFoundError, StoreRefused):
                if content := self._stores.copy_at(snapshot.manifest_list):
                    manifests |= listed_manifests(snapshot.manifest_list, content)
        return manifests

    def register(self, table: TablePair, snapshots: Sequence[Registration]) -> str:
        """Adds snapshots to a cold table in one compare-and-swap; creates a missing table.

        Returns:
            The cold metadata file that has them.

        Raises:
            NameConflict: The cold name has the history of another table.
            CatalogReadOnly: The cold catalog does not let clients write metadata.
            CommitConflict: Every attempt lost to a concurrent commit, or the outcome is unknown.
        """
        request = table.request
        addition = Addition(table.document, request.hot.uuid, snapshots, request.marks)
        verified = self._clock.now()
        if table.cold is None:
            new = NewTable(request.cold, lambda now: self._first(table, addition, verified, now))
            try:
                return self._catalog.create([new])[request.cold]
            except NameConflict:  # created concurrently: check whether it is ours
                pass

        def edit(document: MetadataEditor) -> None:
            _require_ours(request, document.state)
            document.replace(with_snapshots(document.document, addition, verified))

        return self._catalog.edit_table(request.cold, sealing(edit))

    def _first(
        self, table: TablePair, addition: Addition, verified: datetime, now: datetime
    ) -> NextMetadata:
        request = table.request
        location = self._stores.target(request.hot.location.rstrip("/"))
        uuid = str(uuid4())
        document = with_seal(first_document(addition, uuid, location, verified, now))
        return first_file(request.cold, document, str(uuid4()))


def _require_ours(request: HandoffRequest, cold: TableMetadata) -> None:
    owner = cold.properties.get(COLD_OF, "none")
    if owner != request.hot.uuid:
        raise NameConflict(
            f"{request.cold} does not hold the history of {request.hot.name}, which stays hot",
            object=str(request.cold),
            expected=f"{COLD_OF} = {request.hot.uuid}",
            found=owner,
            next=f"give the table in cold another name, or {request.hot.name}",
        )
    require_same_installation(str(request.cold), cold.properties, request.marks)
