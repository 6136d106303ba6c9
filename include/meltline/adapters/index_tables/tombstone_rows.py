"""Plan items and departures as rows of the ledger."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from meltline.adapters.index_tables.rows import departures, planned_files
from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.index_tables.tombstone_cache import COLUMNS, TombstoneCache
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.iceberg.files import Departure, DepartureState, FileKind, PlannedFile


class DepartureRows(LedgerTables):
    """What plans are about, and what has departed."""

    def store_items(self, plans: Mapping[str, Sequence[PlannedFile]]) -> None:
        """Stores the items of plans, in one commit; a retry finds them and stores nothing."""
        there = self._values("plan_items", "plan_id", list(plans))
        new = [(key, file) for key, files in plans.items() if key not in there for file in files]
        columns: dict[str, list[Any]] = {
            "plan_id": [plan_id for plan_id, _ in new],
            "path": [file.path for _, file in new],
            "kind": [str(file.kind) for _, file in new],
            "bytes": [file.bytes for _, file in new],
            "owner": [file.owner for _, file in new],
            "due_at": [file.due_at for _, file in new],
        }
        self._append_columns("plan_items", columns, ",".join(sorted(plans)[:20]))

    def items(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        """The items of plans, each sorted by path."""
        if not plan_ids:
            return {}
        asked, found = self._once("plan_items", "items", lambda: self._items(plan_ids))
        if asked != tuple(plan_ids):  # one answer is kept: a step asks for its plans several times
            self._kept.pop("items")
            return self.items(plan_ids)
        return found

    def _items(
        self, plan_ids: Sequence[str]
    ) -> tuple[tuple[str, ...], Mapping[str, Sequence[PlannedFile]]]:
        found: dict[str, list[PlannedFile]] = {plan_id: [] for plan_id in plan_ids}
        columns = TABLES["plan_items"].names
        rows = self._look("plan_items", columns, [("plan_id", "in", plan_ids)])
        ids = rows.column("plan_id").to_pylist()
        for plan_id, file in zip(ids, planned_files(rows), strict=True):
            found[plan_id].append(file)
        return tuple(plan_ids), {key: sorted(files, key=_by_path) for key, files in found.items()}

    def record_departures(self, departures: Mapping[str, Sequence[Departure]]) -> None:
        """Appends states of departures, by marker, in one commit; a known marker adds nothing."""
        there = self._values("departures", "marker", list(departures))
        new = [
            (marker, one) for marker, of in departures.items() if marker not in there for one in of
        ]
        columns: dict[str, list[Any]] = {
            "path": [one.path for _, one in new],
            "key_hash": [key_hash(one.path) for _, one in new],
            "kind": [str(one.kind) for _, one in new],
            "bytes": [one.bytes for _, one in new],
            "owner": [one.owner for _, one in new],
            "plan_id": [one.plan_id for _, one in new],
            "departed_at": [one.departed_at for _, one in new],
            "due_at": [one.due_at for _, one in new],
            "state": [str(one.state) for _, one in new],
            "recorded_at": [one.recorded_at for _, one in new],
            "written_ns": [self._next_moment()] * len(new),
            "marker": [marker for marker, _ in new],
        }
        self._append_columns("departures", columns, ",".join(sorted(departures)[:20]))

    def _next_moment(self) -> int:
        """Now, in nanoseconds, or right after the newest row: a clock may have been ahead then."""
        newest = pc.max(self._book().rows.column("written_ns")).as_py()
        return max(time.time_ns(), (newest or 0) + 1)

    def _book(self) -> TombstoneCache:
        return self._once(
            "departures", "book", lambda: TombstoneCache.of(self._look("departures", COLUMNS))
        )

    def _waiting(self) -> TombstoneCache:
        return self._once(
            "departures", "waiting", lambda: self._book().of_states([DepartureState.FAILSAFE])
        )

    def _departed(self, *kinds: FileKind) -> pa.Array:
        """The hashes of files of some kinds that departed and were not taken back."""
        states = set(DepartureState) - {DepartureState.CANCELLED}
        return self._book().of_kinds(kinds).of_states(states).hashes

    def waiting_plans(self) -> set[str]:
        """Plans of which files wait in failsafe."""
        return self._waiting().plans

    def departures(
        self,
        states: frozenset[DepartureState],
        *,
        due_by: datetime | None = None,
        paths: Sequence[str] | None = None,
    ) -> Sequence[Departure]:
        """The newest row of each departed path, where it is in one of the states."""
        found = self._book().of_states(states, due_by)
        if paths is not None:
            found = found.among(map(key_hash, paths))
        if not found.rows.num_rows:
            return ()
        columns = TABLES["departures"].names
        rows = self._look("departures", columns, among=("key_hash", found.hashes))
        return sorted(departures(found.newest_of(rows)), key=_by_path)


def _by_path(found: Departure | PlannedFile) -> str:
    return found.path
