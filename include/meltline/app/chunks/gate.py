"""Facts for the gate before a drop, gathered independently of the planner.

`app.chunks.rounds` calls it, has the facts evaluated, stores the verdict and moves the plan. It is
a module of its own because it only reads, and by other ways than the planner. The planner uses the
ledger's chunks and its own reading of the manifests. The gate has the engine list the chunks' files
at the planned snapshot. It reads the rows of both sides, and asks catalog, policies, holds and cold
again. Unreadable facts forbid the drop.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from meltline.app.chunks.lookups import ChunkedTable, HotTable, chunked_tables
from meltline.app.chunks.plan_drops import Force
from meltline.app.chunks.proofs import ColdSide, late_rows, positions
from meltline.app.chunks.rollups.waits import chunks_not_rolled_up
from meltline.app.chunks.tracking import Tracking, written_since
from meltline.app.services import ReadSources
from meltline.domain.chunks.chunk import Chunk, ChunkStatus, Deferral
from meltline.domain.chunks.durability import is_gated, latest_begun
from meltline.domain.chunks.main_history import MainLine, drops_of, with_standings
from meltline.domain.chunks.sync import RowDigest
from meltline.domain.deletion.gate import GateFacts
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.errors import MeltlineError, TableNotFound
from meltline.domain.iceberg.files import PlannedFile
from meltline.domain.units import format_files
from meltline.ports import SPANNING, ChunkRows

COLD_SNAPSHOT = "cold_snapshot"
"""Fact that names the snapshot of cold whose rows were compared."""
_EXAMPLES = 5
_APART = {
    "rows_differ": Deferral.ROWS_DIFFER,
    "chunks_written_since": Deferral.CHANGED_MEANWHILE,
    "drops_unknown": Deferral.UNKNOWN_DROP,
    "rollups_behind": Deferral.ROLLUP_DIRTY,
}
"""Facts about single chunks: a chunk that violates one does not stop the others."""
_Found = TypeVar("_Found")


@dataclass
class DropLook:
    """Reads every fact that may forbid a drop, through read-only ports (`tests/house/reach.py`).

    Attributes:
        rows: Lists the files of chunks and reads their rows, of hot and of cold.
    """

    sources: ReadSources
    rows: ChunkRows
    plan: Plan
    items: Sequence[PlannedFile]
    force: Force | None = None
    unreadable: list[str] = field(default_factory=list)
    cold_unreadable: list[str] = field(default_factory=list)
    apart: dict[str, Deferral] = field(default_factory=dict)
    cold_snapshot: int = 0

    def _read(self, read: Callable[[], _Found], otherwise: _Found) -> _Found:
        try:
            return read()
        except MeltlineError as error:
            self.unreadable.append(f"{error.message}: {error.found}")
            return otherwise

    def facts(self) -> GateFacts:
        """Collects the facts; a fact that cannot be read gets its worst value."""
        plan, everything = self.plan, list(self.plan.chunks)
        listed = self._read(self._files_by_engine, None)
        measures: dict[str, Collection[str]] = {
            "base_lost": self._read(self._base_lost, [str(plan.base_head)]),
            "chunks_written_since": self._read(self._written_since, everything),
            "planned_held": self._read(self._held, [str(plan.table)]),
            "chunks_young": self._read(self._young, everything),
            "chunks_latest": self._read(self._latest, everything),
            "chunks_without_time": [c for c in everything if self._end(c) is None],
            "drops_unknown": self._read(self._untold, everything),
            "files_differ": everything if listed is None else self._differing_files(listed),
            "files_reaching_beyond": [] if listed is None else self._beyond(listed),
            "rollups_behind": self._read(self._behind_rollups, everything),
            "not_durable": self._read(self._not_durable, everything),
            "rows_differ": self._read(self._rows_differ, everything),
        }
        for fact, reason in _APART.items():
            self.apart |= dict.fromkeys(measures[fact], reason)
        measures |= {"unreadable": self.unreadable, "cold_unreadable": self.cold_unreadable}
        facts: dict[str, int | float | bool | str] = {k: len(v) for k, v in measures.items()}
        facts["digest_matches"] = (
            plan.digest_of(self.items) == plan.digest and len(self.items) == plan.files
        )
        facts["share_allowed"] = self._read(self._share_allowed, -1.0)
        facts[COLD_SNAPSHOT] = self.cold_snapshot
        facts["chunks_proved"] = 0 if listed is None else len(plan.chunks)
        examples = {
            fact: tuple(sorted(examples_of)[:_EXAMPLES]) for fact, examples_of in measures.items()
        }
        subject = f"{len(plan.chunks)} chunks, {format_files(plan.files, plan.bytes)}"
        return GateFacts(
            plan.id, plan.digest, PlanKind.DROP_CHUNKS, facts, examples, f"{plan.table}: {subject}"
        )

    # --- read again for the gate
    # -------------------------------------------------------------------

    @cached_property
    def _table(self) -> ChunkedTable:
        for table in chunked_tables(self.sources, only=[self.plan.table_uuid]):
            return table
        raise TableNotFound(
            f"{self.plan.table} is not there, or not readable",
            object=str(self.plan.table),
            expected=f"the table {self.plan.table_uuid}",
            found="none",
            next="`meltline doctor` names tables that cannot be read",
        )

    @cached_property
    def _tracking(self) -> Tracking:
        """The chunks as the ledger has them; later commits are read from the table."""
        hot = HotTable(self._table.state, self.sources.store)
        chunks = self.sources.control.chunks.of(self.plan.table_uuid)
        return Tracking(hot, self._table.tracked, chunks)

    def _chunks(self) -> list[Chunk]:
        return [self._tracking.chunks[name] for name in self.plan.chunks]

    def _end(self, name: str) -> object:
        chunk = self._read(lambda: self._tracking, None)
        known = chunk.chunks.get(name) if chunk else None
        return known.end if known else None

    def _base_lost(self) -> list[str]:
        base = self.plan.base_head
        return [] if self._tracking.hot.since(base) is not None and base else [str(base)]

    def _written_since(self) -> list[str]:
        files, hot, layout = (
            self.sources.chunk_files,
            self._tracking.hot,
            self._table.tracked.layout,
        )
        return written_since(files, hot, layout, self.plan.base_head, self.plan.chunks)

    def _untold(self) -> list[str]:
        """Chunks with an earlier drop whose status main's history does not decide."""
        chunks = self._chunks()
        line = MainLine.of(self._table.state, self._table.tracked.judged, drops_of(chunks))
        return [c.name for c in chunks if not with_standings(c, line).is_told]

    def _held(self) -> list[str]:
        return [str(self._table.state.name)] if self._table.observed.held else []

    def _young(self) -> list[str]:
        """Chunks that no current policy drops at the plan's logical date."""
        if self.force is not None:
            return [name for name in self.plan.chunks if name not in self.force.chunks]
        policy = self._table.drop_policy
        if policy is None or policy.drop_after is None:
            return list(self.plan.chunks)
        cutoff = policy.drop_after.before(self.plan.as_of)
        return [c.name for c in self._chunks() if c.end is None or c.end > cutoff]

    def _behind_rollups(self) -> Collection[str]:
        """Chunks with rows that a rollup lacks, by the manifests of all commits since."""
        policy = self._table.drop_policy if self.force is None else None
        cutoff = policy.drop_after.before(self.plan.as_of) if policy and policy.drop_after else None
        ranges = {chunk.name: chunk.range for chunk in self._chunks()}
        return chunks_not_rolled_up(self.sources, self._table, ranges, cutoff)

    def _latest(self) -> list[str]:
        policy = self._table.drop_policy
        if self.force is not None or policy is None or not policy.keep_latest:
            return []
        latest = latest_begun(self._tracking.chunks, policy.keep_latest, self.plan.as_of)
        return [name for name in self.plan.chunks if name in latest]

    # --- the files, by the engine ----------------------------------------------------------------

    def _files_by_engine(self) -> Mapping[str, Collection[str]]:
        assert self.plan.base_head is not None
        layout = self._table.tracked.layout
        name, base = self._table.state.name, self.plan.base_head
        return self.rows.files(name, base, layout, self.plan.chunks)

    def _differing_files(self, listed: Mapping[str, Collection[str]]) -> list[str]:
        live = {path for name, paths in listed.items() if name != SPANNING for path in paths}
        return sorted(live ^ {item.path for item in self.items})

    def _beyond(self, listed: Mapping[str, Collection[str]]) -> list[str]:
        return sorted(listed.get(SPANNING, ()))

    # --- whether cold has them -------------------------------------------------------------------

    @property
    def _is_gated(self) -> bool:
        policy = self._table.drop_policy
        if self.force is not None:
            return False
        return policy is None or is_gated(self._table.sync, policy.type)

    def _not_durable(self) -> list[str]:
        if not self._is_gated:
            return []
        waiting = positions(self.sources, self._table.sync, self._tracking, self._chunks())
        self.apart |= {name: deferred.reason for name, deferred in waiting.items()}
        return [f"{d.chunk}: {d.reason} {d.detail}".strip() for d in waiting.values()]

    def _rows_differ(self) -> list[str]:
        """Chunks whose rows at the planned snapshot are not exactly those that cold has now."""
        if not self._is_gated:
            return []
        sync = self._table.sync
        if sync is None:
            return list(self.plan.chunks)
        try:
            cold_rows = self._cold_rows()
        except MeltlineError as error:
            self.cold_unreadable.append(f"{error.message}: {error.found}")
            return list(self.plan.chunks)
        base = self.plan.base_head
        assert base is not None
        layout = self._table.tracked.layout
        hot_rows = self.rows.digests(self._table.state.name, base, layout, self.plan.chunks)
        return [n for n in self.plan.chunks if hot_rows.get(n) != cold_rows.get(n)]

    def _cold_rows(self) -> Mapping[str, RowDigest]:
        sync = self._table.sync
        assert sync is not None
        layout = self._table.tracked.layout
        cold = ColdSide.read(self.sources, sync, self.rows)
        self.cold_snapshot = cold.snapshot_id
        again = [c for c in self._chunks() if c.status is ChunkStatus.REOPENED]
        whole = set(self.plan.chunks) - {chunk.name for chunk in again}
        digests = self.rows.digests(sync.cold, cold.snapshot_id, layout, whole)
        late = late_rows(self.sources, self.rows, sync, layout, cold, again)
        return {**digests, **late}

    def _share_allowed(self) -> float:
        """Share of the table that could be dropped in addition; below zero it is too much."""
        total = sum(chunk.bytes for chunk in self._tracking.chunks.values())
        if self.force is not None or not total:
            return 0.0
        return self.sources.config.chunks.max_drop_share - self.plan.bytes / total
