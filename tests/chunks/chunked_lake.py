"""A watched lake with one table that is cut into chunks, and what an outsider knows of its rows.

Held after every step: every row that was ever accepted, and that no user has deleted, is in hot or
in cold; what cold has once it keeps; and nothing leaves hot before its copy is in cold, unless
somebody has said that it may. Where replication has caught up, the view over both is exactly these
rows, none of them twice.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from meltline.adapters.chunks.file_reader import AvroChunkFiles
from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.settle import DropAnswer
from meltline.app.services import RunContext
from meltline.config.load import Config
from meltline.domain.chunks.chunk import UNKNOWN_DROP, Chunk, ChunkStatus
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout
from meltline.domain.chunks.main_history import MainLine, drops_of, with_standings
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import SYNC_OF, SyncState, TableSync
from meltline.domain.deletion.limits import ChunkSettings
from meltline.domain.errors import SyncRefused
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.ports.chunks import ChunkDropper, DropOutcome, DropRequest
from tests.chunks.chunk_tables import DAILY, ChunkTable, by_chunk, chunk_table
from tests.chunks.rolled_up import RollupOracle
from tests.doubles.chunks import complete_rows_of
from tests.doubles.chunks.commits import load_rows
from tests.doubles.chunks.rows import Row, chunk_of
from tests.lives.watched_changes import is_dropped
from tests.lives.watched_lake import WatchedLake


@dataclass
class Accepted:
    """The rows that a table has accepted, and that no user has deleted.

    Attributes:
        rows: Those of now.
        at: Those of each commit: hot may be rolled back to it.
        kept: Deletes that cold keeps by a person's word, and whose rows are accepted again.
        forgone: Rows of which cold has what it has, because somebody has let them go unproved.
        untold: Chunks of whose drops nobody could tell any more what they took, once another tool
            had expired history, had replaced main by one that does not come from them, or had set
            it to them again after cold was copied without them. Where hot has no row of one, cold
            answers, also for what a user had deleted.
        back: Rows that a rollback has brought back to hot. A pass that was under way may have read
            before it that they went: cold loses them, and gets them again.
    """

    rows: set[Row] = field(default_factory=set)
    at: dict[int, frozenset[Row]] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    forgone: set[Row] = field(default_factory=set)
    untold: set[str] = field(default_factory=set)
    back: set[Row] = field(default_factory=set)

    def took(self, snapshot_id: int) -> None:
        """A commit stands as it is now."""
        self.at.setdefault(snapshot_id, frozenset(self.rows))

    def kept_again(
        self, delete: int, rows: set[Row], line: Callable[[int], Collection[int]]
    ) -> None:
        """Cold keeps what a delete took from hot: so it is in all that comes after it."""
        self.kept.add(delete)
        self.rows |= rows
        after = [id for id in self.at if delete in line(id)]
        self.at |= {id: self.at[id] | rows for id in after}


@dataclass
class ChunkedLake(WatchedLake):
    """The lake with its table.

    Attributes:
        accepted: What its rows should be.
        forced: Chunks that a person lets go unproved, while a command says so.
        in_cold: The rows that cold had at the last look.
        rolled_up: What rollups should say.
        uuid: The table, by whatever name.
        former: What cold has of it from before it was replaced with other types, each table with
            its metadata file.
        answers: How often all rows were read, and from where, or why they were not.
    """

    accepted: Accepted = field(default_factory=Accepted)
    forced: frozenset[str] = frozenset()
    in_cold: set[Row] = field(default_factory=set)
    uuid: str = ""
    former: dict[TableName, str] = field(default_factory=dict)
    drops: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    rolled_up: RollupOracle = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rolled_up = RollupOracle(self)

    def begin(self, version: int) -> None:
        """Makes the table."""
        self.uuid = chunk_table(self, "lake.air.chunks", version=version).uuid

    def config(self) -> Config:
        return replace(super().config(), chunks=ChunkSettings(max_drop_share=1.0))

    def services(self, **changes: Any) -> RunContext:
        built = super().services(**changes)
        assert built.dropper is not None
        return replace(built, dropper=WatchedDropper(self, built.dropper))

    # --- what there is -------------------------------------------------------------------------

    @property
    def hot(self) -> ChunkTable | None:
        """The table, where it stands under a name of engines."""
        for table in self.registered():
            if table.uuid == self.uuid and table.name.catalog == "lake" and not is_dropped(table):
                return ChunkTable(self, table.name)
        return None

    def hot_rows(self) -> list[Row]:
        return self.hot.rows_now() if self.hot else []

    @contextmanager
    def cold_owner(self) -> Iterator[ChunkTable | None]:
        """Has the owner of cold work on the synced table; None where it has no snapshot yet."""
        self.catalogs["ice"] = self.cold
        try:
            entries = self.cold.listing().entries
            tables = [ChunkTable(self, entry.name) for entry in entries]
            synced = [t for t in tables if t.document["properties"].get(SYNC_OF) == self.uuid]
            synced = [table for table in synced if table.name not in self.former]
            yield next((table for table in synced if table.head > 0), None)
        finally:
            del self.catalogs["ice"]

    def compact_cold(self, *chunks: str) -> None:
        """Rewrites the files of some chunks of cold, or of all: its owner may."""
        with self.cold_owner() as table:
            if table is not None and table.rows_now():
                table.learn_files()
                table.compact_chunks(*chunks)

    def expire_cold(self) -> None:
        """Expires every snapshot of cold but the newest: its owner may."""
        with self.cold_owner() as table:
            if table is not None:
                table.expire_elsewhere(*set(table.snapshots) - {table.head})

    def cold_rows(self) -> list[Row]:
        """What cold has of it, whatever else lies there."""
        for entry in self.cold.listing().entries:
            if entry.name in self.former:
                continue
            _, table = load_rows({"ice": self.cold}, self.store, entry.name)
            if table.document["properties"].get(SYNC_OF) == self.uuid:
                head = table.document["refs"].get("main")
                return table.rows_at(head["snapshot-id"]) if head else []
        return []

    @property
    def sync(self) -> TableSync | None:
        return next(iter(self.control.syncs.all([self.uuid])), None)

    def chunks(self) -> dict[str, Chunk]:
        return dict(self.control.chunks.of(self.uuid))

    @property
    def layout(self) -> ChunkLayout:
        """What its chunks are, once somebody has said so."""
        tracked = self.control.chunks.tracked([self.uuid])
        return tracked[0].layout if tracked else DAILY

    def is_walked(self) -> bool:
        """Whether the ledger has looked at main's head."""
        table = self.hot
        tracked = next(iter(self.control.chunks.tracked([self.uuid])), None)
        walked = tracked.walked if tracked else None
        return bool(table and walked and walked.snapshot_id == table.head)

    def as_main_says(self, chunks: Collection[Chunk]) -> list[Chunk]:
        """Chunks with how their drops stand on main's line now, whether or not a walk noted it."""
        (tracked,) = self.control.chunks.tracked([self.uuid]) or (None,)
        if (table := self.hot) is None or tracked is None:
            return list(chunks)
        state = parse_table(table.name, table.metadata_location, 1, table.document)
        line = MainLine.of(state, tracked.judged, drops_of(chunks))
        return [with_standings(chunk, line) for chunk in chunks]

    def answer_for(self, table: ChunkTable, name: str) -> DropAnswer:
        """Whether main comes from the last drop of a chunk of which the ledger cannot tell.

        Of one that only cold has told of: whether hot has all rows of the chunk.
        """
        drop = self.chunks()[name].last_drop
        if drop is None or drop.snapshot_id == UNKNOWN_DROP:
            accepted = by_chunk(self.accepted.rows, self.layout).get(name, set())
            is_undone = accepted <= set(table.rows_now())
        else:
            is_undone = drop.snapshot_id not in self.rolled_up.line(table.head)
        return DropAnswer.UNDONE if is_undone else DropAnswer.IN_FORCE

    def is_shown(self, table: ChunkTable, name: str) -> bool:
        """Whether main's history shows how the last drop of a chunk stands."""
        drop, document = self.chunks()[name].last_drop, table.document
        parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in document["snapshots"]}

        def line(head: int | None) -> Iterator[int]:
            while head in parents:
                yield head
                head = parents[head]

        return drop is not None and not {*line(drop.snapshot_id)}.isdisjoint(line(table.head))

    def has_caught_up(self) -> bool:
        """Whether cold has all that hot did, as far as everybody says."""
        sync, table = self.sync, self.hot
        return bool(
            sync
            and table
            and sync.state is SyncState.STREAMING
            and sync.committed
            and sync.committed.snapshot_id == table.head
            and self.is_walked()
        )

    # --- what has to hold ----------------------------------------------------------------------

    def check(self) -> None:
        super().check()
        self.check_rows()
        self.rolled_up.check()
        if self.hot and self.is_walked():
            self.check_ledger()

    def check_rows(self) -> None:
        accepted, hot, cold = self.accepted, self.hot_rows(), self.cold_rows()
        for name, location in self.former.items():
            assert self.cold.location(name) == location, f"{name} is no part of the table any more"
        if (table := self.hot) is None:
            return  # dropped: what is left of it goes when its retention is over
        accepted.took(table.head)
        twice = [row for row, count in Counter(hot).items() if count > 1]
        assert not twice, f"hot has rows twice: {twice}"
        odd = set(hot) - accepted.rows
        assert not odd, f"hot has rows that nobody wrote: {sorted(odd)}"
        lost = accepted.rows - set(hot) - set(cold)
        assert not lost, f"rows in neither hot nor cold: {sorted(lost)}"
        taken = (self.in_cold & accepted.rows) - set(cold) - (accepted.back & set(hot))
        assert not taken, f"LT-26: cold has lost rows: {sorted(taken)}"
        self.in_cold = set(cold)
        if self.has_caught_up():
            accepted.back = set()
            self._check_copy(cold)
            self._check_view(hot, cold)
        self.check_complete()

    def doubtful(self, cold: Iterable[Row]) -> set[Row]:
        """Rows of which it depends on the ledger whether cold has them."""
        accepted, layout = self.accepted, self.layout
        over = set(cold) - accepted.rows if accepted.untold else set[Row]()
        return {row for row in over if chunk_of(layout, row) in accepted.untold}

    def kept_again(self) -> dict[int, set[Row]]:
        """Rows that each delete of main's took from hot which cold keeps since the last look."""
        table, sync = self.hot, self.sync
        if table is None or sync is None:
            return {}
        line = self.rolled_up.line(table.head)
        parents = {
            s["snapshot-id"]: s.get("parent-snapshot-id") for s in table.document["snapshots"]
        }
        return {
            id: set(table.rows.rows_at(parent)) - set(table.rows.rows_at(id))
            for id in set(sync.kept_deletes).intersection(line) - self.accepted.kept
            if (parent := parents.get(id)) in parents
        }

    def _check_copy(self, cold: Iterable[Row]) -> None:
        """Cold has everything once, and nothing else; deletes by others were decided by now."""
        accepted, rows = self.accepted, list(cold)
        for id, back in self.kept_again().items():
            accepted.kept_again(id, back, self.rolled_up.line)
        kept = self.doubtful(rows) & set(rows)
        alone = {name for name, chunk in self.chunks().items() if chunk.was_dropped}
        held = {row for row in kept if chunk_of(self.layout, row) not in alone}
        assert not held, f"cold keeps rows of chunks that hot has whole: {sorted(held)}"
        accepted.rows |= kept
        accepted.untold = set()
        # Replication reads what was appended from history: it may save what was dropped unproved.
        odd = set(rows) - accepted.rows - accepted.forgone
        assert not odd, f"cold has rows that are over: {sorted(odd)}"
        missing = accepted.rows - set(rows)
        assert not missing, f"cold says that it has caught up, without {sorted(missing)}"
        twice = [row for row, count in Counter(rows).items() if count > 1]
        assert not twice, f"cold has rows twice: {twice}"

    def _check_view(self, hot: Iterable[Row], cold: Iterable[Row]) -> None:
        """Cold for what was dropped, hot for the rest, both for what has come back."""
        layout = self.layout
        in_hot, in_cold, seen = by_chunk(hot, layout), by_chunk(cold, layout), set[Row]()
        known = self.chunks()
        for name in in_hot.keys() | in_cold.keys():
            chunk = known.get(name)
            was_dropped = chunk is not None and chunk.was_dropped
            if was_dropped:
                seen |= in_cold.get(name, set())
            if not was_dropped or (chunk and chunk.status is ChunkStatus.REOPENED):
                seen |= in_hot.get(name, set())
        rows, forgone = self.accepted.rows, self.accepted.forgone
        lacks, more = rows - seen, seen - rows - forgone
        assert not lacks and not more, f"the view lacks {sorted(lacks)}, has besides {sorted(more)}"

    def check_complete(self, services: RunContext | None = None) -> None:
        """LT-33: what is read as all rows is all that were accepted, each once, at every step.

        Rows of which nobody can tell are those that others or a rollback took out of hot, or that
        somebody let go unproved; a table that is diverged may refuse, and never answer wrong.

        Args:
            services: By which it is read; others may act beside them.
        """
        table = self.hot
        if table is None or not self.control.chunks.tracked([self.uuid]):
            return
        try:
            read = complete_rows(services or self.services(), table.name).read
        except SyncRefused as refused:
            self.answers[refused.found] += 1
            return
        self.answers["both" if read.cold else "hot alone"] += 1
        self.answers["late copies"] += bool(read.cold and read.cold.copies.whole)
        rows = Counter(complete_rows_of(read, self.store))
        accepted, expected = self.accepted, self.accepted.rows
        may_be = accepted.rows | self.doubtful(self.cold_rows()) | accepted.forgone
        may_be = may_be.union(*self.kept_again().values())
        if read.hot.snapshot_id != (self.hot.head if self.hot else None):  # main has gone on since
            then = accepted.at.get(read.hot.snapshot_id or -1, frozenset())
            expected, may_be = expected & then, may_be | then
        twice = sorted(row for row, count in rows.items() if count > 1)
        assert not twice, f"LT-33: rows twice: {twice}"
        lacks = expected - rows.keys()
        assert not lacks, f"LT-33: the rows of both lack {sorted(lacks)}"
        odd = rows.keys() - may_be
        assert not odd, f"LT-33: the rows of both have besides {sorted(odd)}"

    def check_ledger(self) -> None:
        """What the ledger says of chunks is what the table's files say."""
        table = self.hot
        assert table is not None
        counts: dict[str, Counter[str]] = {}
        for file in self._live_files(table):
            names = self.layout.names(file.times)
            assert names is not None, f"{file.path} lies nowhere"
            seen = table.rows.chunks(self.layout, file.path).keys()
            assert seen <= set(names), f"{file.path} has rows in {sorted(seen)}, not {names}"
            alone = {"rows": file.rows, "files": 1, "bytes": file.bytes}
            for name in names:
                counts.setdefault(name, Counter()).update({"spans": 1} if names[1:] else alone)
        for name, chunk in self.chunks().items():
            told = Counter(rows=chunk.rows, files=chunk.files, bytes=chunk.bytes, spans=chunk.spans)
            assert +told == counts.get(name, Counter()), f"{name}: {told}, not {counts.get(name)}"
            # A compaction into longer partitions may reach into it, and brings no row of it.
            assert chunk.is_resident or not chunk.files, f"{name} is called dropped, and has files"
            asked = chunk.status is ChunkStatus.UNKNOWN and self.is_shown(table, name)
            assert not asked, f"{name} is called unknown, and history shows its last drop"
            tiered = chunk.status is ChunkStatus.TIERED
            assert not tiered or chunk.tiered_at, f"{name} was never proved"
        assert counts.keys() <= self.chunks().keys()

    def _live_files(self, table: ChunkTable) -> Sequence[ChunkFile]:
        """The data files of main, with their times."""
        state = parse_table(table.name, table.metadata_location, 1, table.document)
        if (head := state.current_snapshot) is None:
            return []
        live = AvroChunkFiles(self.store).live(head, self.layout)
        return [file for file in live if file.kind is FileKind.DATA]

    # --- drops ---------------------------------------------------------------------------------

    def may_go_unproved(self, names: Iterable[str]) -> bool:
        """Whether somebody has said so: plain retention of a table without sync, or force."""
        policies = self.control.chunk_policies.all([self.uuid])
        is_plain = any(policy.type is PolicyType.RETENTION for policy in policies)
        return (self.sync is None and is_plain) or set(names) <= self.forced


@dataclass
class WatchedDropper:
    """Holds every drop against cold and rollups, at the moment of its commit.

    LT-11, LT-17, LT-30, LT-36.
    """

    lake: ChunkedLake
    inner: ChunkDropper

    def drop(self, request: DropRequest) -> DropOutcome:
        lake, table = self.lake, ChunkTable(self.lake, request.table)
        assert not lake.is_stopped, "about to drop chunks in spite of a stop"
        is_rollup = table.uuid in {rollup.table_uuid for rollup in lake.rolled_up.rollups()}
        told = lake.rolled_up.before_drop(table.uuid, request)
        outcome = self.inner.drop(request) if is_rollup else self._drop(request, table)
        if outcome.snapshot_id is not None:
            lake.rolled_up.dropped(table.uuid, told, request, outcome.snapshot_id)
        return outcome

    def _drop(self, request: DropRequest, table: ChunkTable) -> DropOutcome:
        lake = self.lake
        leaving = [r for r in table.rows_now() if chunk_of(request.layout, r) in request.chunks]
        is_held, cold = lake.is_held(table), Counter(lake.cold_rows())
        outcome = self.inner.drop(request)
        if outcome.snapshot_id is None:
            return outcome
        assert table.uuid == lake.uuid, f"{table.name} has no policy of its own"
        assert not is_held, f"{table.name} is held, and chunks of it were dropped"
        unproved = set(Counter(leaving) - cold)
        if lake.may_go_unproved(request.chunks):
            lake.accepted.rows -= unproved
            # Nor does cold hear of what was deleted since its last pass: it keeps what it has.
            lake.accepted.forgone |= unproved | (set(cold) - lake.accepted.rows)
        assert not unproved & lake.accepted.rows, f"dropped unproved: {sorted(unproved)}"
        lake.accepted.took(outcome.snapshot_id)
        lake.drops += 1
        return outcome
