"""Plan items and departures as rows of the ledger."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.ledger_rows import departure, planned_file
from meltline.adapters.spark.ledger_tables import LedgerTables
from meltline.domain.files import Departure, DepartureState, PlannedFile


class DepartureRows(LedgerTables):
    """What plans are about, and what has departed."""

    def store_items(self, plans: Mapping[str, Sequence[PlannedFile]]) -> None:
        """Stores the items of plans, in one commit; a retry finds them and stores nothing."""
        there = self._values("plan_items", "plan_id", list(plans))
        rows = [
            {
                "plan_id": plan_id,
                "path": file.path,
                "kind": str(file.kind),
                "bytes": file.bytes,
                "owner": file.owner,
                "due_at": file.due_at,
            }
            for plan_id, files in plans.items()
            if plan_id not in there
            for file in files
        ]
        self._append("plan_items", rows, ",".join(sorted(plans)[:20]))

    def items(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        """The items of plans, each sorted by path."""
        found: dict[str, list[PlannedFile]] = {plan_id: [] for plan_id in plan_ids}
        if plan_ids:
            rows = self._read("plan_items").where(F.col("plan_id").isin(list(plan_ids)))
            for row in rows.toArrow().to_pylist():
                found[row["plan_id"]].append(planned_file(row))
        return {plan_id: sorted(files, key=_by_path) for plan_id, files in found.items()}

    def record_departures(self, departures: Mapping[str, Sequence[Departure]]) -> None:
        """Appends states of departures, by marker, in one commit; a known marker adds nothing."""
        there = self._values("departures", "marker", list(departures))
        now_ns = time.time_ns()
        rows = [
            {
                "path": departure.path,
                "key_hash": key_hash(departure.path),
                "kind": str(departure.kind),
                "bytes": departure.bytes,
                "owner": departure.owner,
                "plan_id": departure.plan_id,
                "departed_at": departure.departed_at,
                "due_at": departure.due_at,
                "state": str(departure.state),
                "recorded_at": departure.recorded_at,
                "written_ns": now_ns,
                "marker": marker,
            }
            for marker, found in departures.items()
            if marker not in there
            for departure in found
        ]
        self._append("departures", rows, ",".join(sorted(departures)[:20]))

    def _newest_departures(self) -> DataFrame:
        """The newest row of each departed file: put together once for each state of the table."""
        return self._once("departures", "newest", self._newest)

    def _newest(self) -> DataFrame:
        latest = Window.partitionBy("key_hash").orderBy(F.col("written_ns").desc())
        rows = self._read("departures").withColumn("age", F.row_number().over(latest))
        return rows.where(F.col("age") == 1).drop("age")

    def _waiting(self) -> DataFrame:
        return self._newest_departures().where(F.col("state") == DepartureState.FAILSAFE)

    def departures(
        self,
        states: frozenset[DepartureState],
        *,
        due_by: datetime | None = None,
        paths: Sequence[str] | None = None,
    ) -> Sequence[Departure]:
        """The newest row of each departed path, where it is in one of the states."""
        if paths is not None and not paths:
            return ()
        wanted: Column = F.col("state").isin([str(state) for state in states])
        if due_by is not None:
            wanted = wanted & (F.col("due_at") <= F.lit(due_by))
        if self._current("departures") is None:
            return ()
        newest = self._newest_departures().where(wanted)
        if paths is not None:
            newest = newest.join(self._hashes("key_hash", paths), "key_hash", "leftsemi")
        return sorted((departure(row) for row in newest.toArrow().to_pylist()), key=_by_path)


def _by_path(found: Departure | PlannedFile) -> str:
    return found.path
