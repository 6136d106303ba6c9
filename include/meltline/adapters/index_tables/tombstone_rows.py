"""Reads and writes plan items and departures (tombstones) as rows of the ledger.

It implements the ports `PlanItems` and `DepartureLog` of the file index with Spark. The conversions
that need no Spark are in `rows.py`.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from meltline.adapters.index_tables.rows import departures, newest_rows, planned_files, tuples
from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.iceberg.files import Departure, DepartureState, FileKind, PlannedFile

COLUMNS = ("key_hash", "written_ns", "due_at", "state", "kind", "plan_id", "recorded_at")
"""The columns of `departures` that the cache keeps."""
_CODED = ("state", "kind", "plan_id")
_WRITTEN = ("key_hash", "written_ns")


@dataclass(frozen=True)
class TombstoneCache:
    """The newest row of each departed file: when it was written, and its state."""

    rows: pa.Table

    @classmethod
    def of(cls, rows: pa.Table) -> "TombstoneCache":
        """Builds it from all rows of the table; the newest row of each file wins."""
        for name in _CODED:
            coded = rows.column(name).dictionary_encode()  # all parts by one dictionary
            rows = rows.set_column(rows.schema.get_field_index(name), name, coded)
        return cls(newest_rows(rows))

    def of_states(
        self, states: Collection[DepartureState], due_by: datetime | None = None
    ) -> "TombstoneCache":
        """Selects files in one of the states, and, if an instant is given, due by it."""
        mask = self._is_among("state", states)
        if due_by is not None:
            due = pc.less_equal(self.rows.column("due_at"), pa.scalar(due_by))
            mask = pc.and_(mask, due)
        return TombstoneCache(self.rows.filter(mask))

    @property
    def on_their_way(self) -> "TombstoneCache":
        """Waiting files, without those that a purge has left alone (`Departure.was_left`)."""
        rows = self.rows
        return TombstoneCache(rows.filter(pc.less_equal(rows["recorded_at"], rows["due_at"])))

    def of_kinds(self, kinds: Collection[FileKind]) -> "TombstoneCache":
        """Selects files of some kinds."""
        return TombstoneCache(self.rows.filter(self._is_among("kind", kinds)))

    def over(self, before: datetime, unfinished: Collection[str]) -> "TombstoneCache":
        """Selects files that were deleted before an instant, except those of some plans."""
        early = pc.less(self.rows.column("recorded_at"), pa.scalar(before))
        deleted = self._is_among("state", [DepartureState.DELETED])
        finished = pc.invert(self._is_among("plan_id", unfinished))
        return TombstoneCache(self.rows.filter(pc.and_(pc.and_(early, deleted), finished)))

    def among(self, hashes: Iterable[int]) -> "TombstoneCache":
        """Selects files whose key hash is among these."""
        chosen = pa.array(hashes, pa.int64())
        return TombstoneCache(self.rows.filter(pc.is_in(self.rows.column("key_hash"), chosen)))

    def _is_among(self, column: str, values: Collection[str]) -> pa.ChunkedArray:
        """Compares the few distinct texts: one text for each row would take most of the memory."""
        wanted = pa.array([str(text) for text in values], pa.string())
        chunks = [
            pc.is_in(chunk.dictionary, value_set=wanted).take(chunk.indices)
            for chunk in self.rows.column(column).chunks
        ]
        return pc.fill_null(pa.chunked_array(chunks, pa.bool_()), fill_value=False)

    @property
    def hashes(self) -> pa.Array:
        """Key hashes of the files."""
        return self.rows.column("key_hash").combine_chunks()

    @property
    def plans(self) -> set[str]:
        """The plans by which the files departed."""
        return set(pc.unique(self.rows.column("plan_id")).to_pylist())

    def newest_of(self, rows: pa.Table) -> pa.Table:
        """Selects, from full rows of the table, those in this cache, each once."""
        newest = set(tuples(self.rows, *_WRITTEN))
        first: dict[tuple[int, int], int] = {}
        for number, key in enumerate(tuples(rows, *_WRITTEN)):
            if key in newest:
                first.setdefault(key, number)
        return rows.take(pa.array(first.values(), pa.int64()))


class ItemRows:
    """Implements the port `PlanItems`: rows of `plan_items`."""

    def __init__(self, tables: LedgerTables) -> None:
        self._tables = tables

    def store(self, plans: Mapping[str, Sequence[PlannedFile]]) -> None:
        """Stores the items of plans, in one commit; a retry finds them and stores nothing."""
        stored = self._tables.values("plan_items", "plan_id", list(plans))
        new = [(key, file) for key, files in plans.items() if key not in stored for file in files]
        columns = {"plan_id": [plan_id for plan_id, _ in new]}
        columns |= _columns([file for _, file in new], PlannedFile)
        self._tables.append_columns("plan_items", columns, ",".join(sorted(plans)[:20]))

    def of(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        """Returns the items of plans, each sorted by path."""
        if not plan_ids:
            return {}
        ids = tuple(plan_ids)  # one answer is kept: a step asks for its plans several times
        return self._tables.once("plan_items", "items", lambda: self._items(ids), ids)

    def _items(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        items: dict[str, list[PlannedFile]] = {plan_id: [] for plan_id in plan_ids}
        columns = TABLES["plan_items"].names
        rows = self._tables.look("plan_items", columns, [("plan_id", "in", plan_ids)])
        ids = rows.column("plan_id").to_pylist()
        for plan_id, file in zip(ids, planned_files(rows), strict=True):
            items[plan_id].append(file)
        return {key: sorted(files, key=_by_path) for key, files in items.items()}


class DepartureRows:
    """Implements the port `DepartureLog`: rows of `departures`, also for the rest of the index."""

    def __init__(self, tables: LedgerTables) -> None:
        self._tables = tables

    def record(self, departures: Mapping[str, Sequence[Departure]]) -> None:
        """Appends states of departures, by marker, in one commit; a known marker adds nothing."""
        stored = self._tables.values("departures", "marker", list(departures))
        new = [
            (marker, row) for marker, of in departures.items() if marker not in stored for row in of
        ]
        columns = {
            **_columns([row for _, row in new], Departure),
            "key_hash": [key_hash(row.path) for _, row in new],
            "written_ns": [self._next_moment()] * len(new),
            "marker": [marker for marker, _ in new],
        }
        self._tables.append_columns("departures", columns, ",".join(sorted(departures)[:20]))

    def _next_moment(self) -> int:
        """Now, in nanoseconds, or right after the newest row: a clock may have been ahead then."""
        newest = pc.max(self.book().rows.column("written_ns")).as_py()
        return max(time.time_ns(), (newest or 0) + 1)

    def book(self) -> TombstoneCache:
        """Returns the newest state of every file that is not in the history tables."""
        return self._tables.once(
            "departures",
            "book",
            lambda: TombstoneCache.of(self._tables.look("departures", COLUMNS, of_any_size=True)),
        )

    def waiting(self) -> TombstoneCache:
        """Returns the files in failsafe."""
        return self._tables.once(
            "departures", "waiting", lambda: self.book().of_states([DepartureState.FAILSAFE])
        )

    def departed(self, *kinds: FileKind) -> pa.Array:
        """Returns the hashes of files of some kinds that departed and were not cancelled."""
        states = set(DepartureState) - {DepartureState.CANCELLED}
        return self.book().of_kinds(kinds).of_states(states).hashes

    def waiting_plans(self) -> set[str]:
        """Returns the plans of waiting files."""
        return self.waiting().on_their_way.plans

    def in_states(
        self,
        states: frozenset[DepartureState],
        *,
        due_by: datetime | None = None,
        paths: Sequence[str] | None = None,
    ) -> Sequence[Departure]:
        """Returns the newest row of each departed path that is in one of the states."""
        matching = self.book().of_states(states, due_by)
        if paths is not None:
            matching = matching.among(map(key_hash, paths))
        if not matching.rows.num_rows:
            return ()
        columns = TABLES["departures"].names
        rows = self._tables.look("departures", columns, among=("key_hash", matching.hashes))
        return sorted(departures(matching.newest_of(rows)), key=_by_path)

    def settled(self, paths: Sequence[str]) -> set[str]:
        """Selects paths that were deleted and moved to the history tables."""
        hashes = {key_hash(path): path for path in paths}
        among = ("key_hash", list(hashes))
        rows = self._tables.look("settled_departures", ("key_hash",), among=among)
        settled_hashes = set(rows.column("key_hash").to_pylist())
        return {path for path in paths if key_hash(path) in settled_hashes}


def _columns(
    rows: Sequence[Departure | PlannedFile], of: type[Departure | PlannedFile]
) -> dict[str, list[Any]]:
    """Returns the values of each field, by its name, which is the column's as well."""
    return {field.name: list(map(attrgetter(field.name), rows)) for field in fields(of)}


def _by_path(file: Departure | PlannedFile) -> str:
    return file.path
