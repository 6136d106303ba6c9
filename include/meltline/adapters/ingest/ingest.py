"""Reads manifests into the ledger, each by the cheapest way (decision 002).

It implements the port `ManifestIndex` for the file index. The ways are `ingest_job.py`, in this
process or on executors, and `bulk_rows.py`, with Spark's own decoder.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from meltline.adapters.index_tables.rows import tuples
from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.ingest.bulk_rows import (
    Decoded,
    Homes,
    Outcomes,
    bulk_rows,
    decoded,
    decoded_here,
    decoded_there,
    in_time,
    is_large,
    spellings,
)
from meltline.adapters.ingest.ingest_job import (
    CHANGE,
    OUTCOME,
    ReadRequest,
    index_here,
    index_spread,
)
from meltline.adapters.ingest.outcome_rows import outcome_of
from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.manifests.spark_decoder import DecodeStep
from meltline.adapters.spark.jvm import ENGINE_FAILURES
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.files import ManifestOutcome
from meltline.domain.iceberg.linear_history import SnapshotDelta
from meltline.domain.iceberg.locations import Ownership, location_key
from meltline.ports import IngestRequest, ObjectReader

_COUNTS = ("added", "existing", "deleted")


@dataclass(frozen=True)
class ReadingLimits:
    """Limits up to which each way to read manifests is the cheapest (decision 002).

    Attributes:
        here_manifests: How many manifests are read in this process; likewise `here_entries`, which
            take about two seconds. More of either go to executors.
        bulk_entries: With more entries than this, Spark's own reader takes the large manifests.
        bulk_manifest: The least number of entries of a large one.
        bulk_small: With more entries than this, it takes small ones as well.
        driver_rows: How many rows of leaving manifests are compared in this process.
        written_here: How many decoded rows are counted and written by this process; more are
            written by executors, and counted as they are in the ledger.
    """

    here_manifests: int = 20_000
    here_entries: int = 100_000
    bulk_entries: int = 20_000
    bulk_manifest: int = 50
    bulk_small: int = 60_000
    driver_rows: int = 200_000
    written_here: int = 3_000_000


class ManifestRows:
    """Implements the port `ManifestIndex`: rows of `entries`, of `changes`, and of manifests read.

    Attributes:
        limits: Selects how manifests are read.
    """

    def __init__(self, tables: LedgerTables, store: ObjectReader, limits: ReadingLimits) -> None:
        self._tables = tables
        self._store = store
        self.limits = limits

    def counted(self, paths: Sequence[str]) -> Mapping[str, tuple[int, int, int]]:
        """Returns ADDED, EXISTING, DELETED counts of the manifests that were fully read."""
        if not paths:
            return {}
        rows = self._rows_of(paths)
        rows = rows.filter(rows.column("whole"))
        read = tuples(rows, "path", "added", "existing", "deleted")
        counts = {location_key(path): (added, old, gone) for path, added, old, gone in read}
        return {path: counts[key] for path in paths if (key := location_key(path)) in counts}

    def ingest(
        self, requests: Sequence[IngestRequest], ownerships: Sequence[Ownership]
    ) -> Sequence[ManifestOutcome]:
        """Reads each manifest once and appends the entries of every readable one.

        The row in `manifests` marks a manifest as read. It is written after the entries, so that a
        crash in between costs a second read and never an entry.
        """
        marker = f"ingest-{time.time_ns()}"
        reads = [
            ReadRequest(request.table_uuid, manifest, _step(request.changes_of))
            for request in requests
            for manifest in request.manifests
        ]
        homes = {request.table_uuid: spellings(request.homes) for request in requests}
        by_path = self._colliding(reads)
        by_path |= self._ingest_bulk(_without(reads, by_path), homes, marker)
        for outcome in self._ingest_rest(_without(reads, by_path), ownerships, marker):
            by_path[outcome.path] = outcome
        outcomes = [by_path[read.manifest.path] for read in reads]
        read_now = zip(reads, outcomes, strict=True)
        rows = [_manifest_row(read, outcome) for read, outcome in read_now if not outcome.error]
        self._tables.append("manifests", rows, marker)
        return outcomes

    def _rows_of(self, paths: Sequence[str]) -> pa.Table:
        """Returns the rows of manifests that have the same ids.

        An id is a hash of 64 bits, so two locations with the same id can be made on purpose.
        """
        among = ("manifest_id", list(map(key_hash, paths)))
        columns = ("manifest_id", "path", "whole", *_COUNTS)
        return self._tables.look("manifests", columns, among=among)

    def _colliding(self, requests: Sequence[ReadRequest]) -> Outcomes:
        """Finds manifests with another one's id: mistaken for it, they would lose their files."""
        paths = list(dict.fromkeys(r.manifest.path for r in requests))
        rows = tuples(self._rows_of(paths), "manifest_id", "path") if paths else ()
        places = {id: location_key(path) for id, path in rows}
        outcomes: Outcomes = {}
        for path in paths:
            place = places.setdefault(key_hash(path), location_key(path))
            if place != location_key(path):
                error = f"{path} has the same 64-bit hash as {place}: write that manifest anew"
                outcomes[path] = ManifestOutcome(path, error=error)
        return outcomes

    def _ingest_rest(
        self, requests: Sequence[ReadRequest], ownerships: Sequence[Ownership], marker: str
    ) -> Sequence[ManifestOutcome]:
        """Reads manifests through the object-store port: a few here, many on executors."""
        if not requests:
            return ()
        few = len(requests) <= self.limits.here_manifests
        if few and sum(map(decoded, requests)) <= self.limits.here_entries:
            indexed = index_here(self._store, requests, ownerships)
            for table, read in (("entries", indexed.entries), ("changes", indexed.changes)):
                if read.num_rows:
                    self._tables.append_arrow(table, read, marker)
            return indexed.outcomes
        spread_rows = index_spread(self._tables.spark, self._store, requests, ownerships)
        # Kept without its lineage. If a lost executor's part were read again, and failed this time,
        # a manifest would count as read although its rows were never written.
        rows = spread_rows.localCheckpoint()
        outcomes = rows.where(OUTCOME).toArrow().to_pylist()
        read = rows.where(f"NOT ({OUTCOME})")
        for table, part in (
            ("entries", read.where(f"NOT ({CHANGE})")),
            ("changes", read.where(CHANGE)),
        ):
            if any((r.step is None) == (table == "entries") for r in requests):
                columns = part.select(*TABLES[table].names)
                self._tables.write(table, columns.coalesce(2), marker)
        return [outcome_of(row) for row in outcomes]

    def _ingest_bulk(self, requests: Sequence[ReadRequest], homes: Homes, marker: str) -> Outcomes:
        """Reads large manifests with Spark's own decoder, if there is enough to read.

        Manifests whose counts do not match are left to the other way. For changes, only the prefix
        of a manifest is decoded at first: it has most of them.
        """
        outcomes: Outcomes = {}
        if (entries := sum(map(decoded, requests))) <= self.limits.bulk_entries:
            return outcomes
        least = self.limits.bulk_manifest if entries <= self.limits.bulk_small else 1
        bulk = [r for r in requests if is_large(r, homes, least)]
        for table, fronts in (("entries", False), ("changes", True), ("changes", False)):
            of_table = [r for r in bulk if (r.step is not None) is (table == "changes")]
            unread = _without(of_table, outcomes)
            if sum(map(decoded, unread)) > self.limits.bulk_entries:
                outcomes |= self._write_bulk(table, unread, homes, marker, fronts=fronts)
        return outcomes

    def _write_bulk(
        self,
        table: str,
        requests: Sequence[ReadRequest],
        homes: Homes,
        marker: str,
        *,
        fronts: bool,
    ) -> Outcomes:
        before = self._tables.current(table)
        try:
            rows = bulk_rows(self._tables.spark, self._store, requests, homes, fronts=fronts)
            if sum(map(decoded, requests)) > self.limits.written_here:
                self._tables.write(table, rows, marker)
                read = self._written_since(table, before)
            else:
                table_rows = in_time(table, rows.toArrow())
                read = decoded_here(self._store, table, table_rows)
                self._tables.append_arrow(table, table_rows, marker)
        # One broken file fails the whole job; the other way reports which one, and why.
        except (*ENGINE_FAILURES, StoreRefused):
            return {}
        return read.outcomes(requests)

    def _written_since(self, table: str, before: int | None) -> Decoded:
        """Counts the rows that were appended to a table since a snapshot."""
        after = self._tables.current(table)
        if after is None or after == before:
            return Decoded()
        reader = self._tables.spark.read.format("iceberg")
        if before is not None:
            reader = reader.option("start-snapshot-id", before)
            reader = reader.option("end-snapshot-id", after)
        rows = reader.load(f"{self._tables.namespace}.{table}")
        return decoded_there(self._store, table, rows)


def _step(step: SnapshotDelta | None) -> DecodeStep | None:
    if step is None:
        return None
    return DecodeStep(step.snapshot.snapshot_id, step.snapshot.sequence_number, step.is_first)


def _without(requests: Sequence[ReadRequest], outcomes: Outcomes) -> Sequence[ReadRequest]:
    return [request for request in requests if request.manifest.path not in outcomes]


def _manifest_row(request: ReadRequest, outcome: ManifestOutcome) -> dict[str, Any]:
    return {
        "table_uuid": request.table_uuid,
        "manifest_id": key_hash(outcome.path),
        "path": outcome.path,
        "bytes": request.manifest.bytes,
        "added": outcome.added,
        "existing": outcome.existing,
        "deleted": outcome.deleted,
        "whole": request.step is None,
    }
