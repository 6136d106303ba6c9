"""What engines, people and other tools do to a table that is cut into chunks, by small numbers.

Each action takes a number to choose with; where it does not fit, nothing happens.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from meltline.app.chunks.policies import PolicyWish, add_policy, forget_policy
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.app.chunks.settle import doubtful_chunks, settle_drops
from meltline.domain.chunks.chunk import ChunkDrop, ChunkStatus
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import DROP_PLAN
from meltline.domain.errors import (
    CommitConflict,
    InvalidHorizons,
    LockHeld,
    NotChunked,
    PolicyExists,
    SyncRefused,
)
from tests.chunks.chunk_tables import (
    AT,
    COPY_ON_WRITE,
    EQUALITY,
    ID,
    MERGE_ON_READ,
    VALUE,
    ChunkTable,
    by_chunk,
    reading,
)
from tests.chunks.chunked_lake import ChunkedLake
from tests.doubles.chunks.rows import Row
from tests.lake.lake import DAY, T0, Table
from tests.lives.oracle import Document
from tests.lives.random_commands import Commands, chosen
from tests.lives.watched_lake import HOLD

WRITES = (
    "append", "append", "append_across", "append_across", "append_late", "append_late",
    "append_without_time", "move_row", "update_rows", "delete_row", "merge", "compact",
    "compact_all", "rewrite_manifests", "evolve", "rename", "cut_anew",
    "cut_coarsely", "tag",
)  # fmt: skip
COLD_OWNER = ("compact_cold", "compact_cold", "expire_cold")
OTHERS = (
    "rollback", "rollback", "expire_partition", "clone", "drop_table",
    "undrop_table", "undrop_table", "expire_history", "replace_table", *COLD_OWNER,
)  # fmt: skip
PEOPLE = (
    "sync", "sync", "sync", "stop", "tier_after", "drop_after", "tier_and_drop", "tier_and_drop",
    "keep_latest", "forget", "hold", "let_go", "settle", "settle",
)  # fmt: skip
OLDEST = 14  # days: so late may a row come


class ChunkEngines:
    """Acts on a lake's table."""

    def __init__(self, lake: ChunkedLake) -> None:
        self.lake = lake
        self._ids = count(1)
        self._clones = count(1)
        self._commands = Commands(lake, lambda: f"f{next(self._ids)}", lambda *_, **__: None)

    def act(self, action: str, number: int) -> None:
        """One action, with what it means for the rows."""
        if action == "undrop_table":
            self._commands.undrop_by_command(number)
        elif table := self.lake.hot:
            getattr(self, action)(table, number)
        if table := self.lake.hot:
            self.lake.accepted.took(table.head)

    # --- rows ----------------------------------------------------------------------------------

    def _row(self, day: float | None, value: int = 0) -> Row:
        return reading(next(self._ids), day, value)

    @property
    def _today(self) -> int:
        return (self.lake.clock.moment - T0) // DAY

    def _accept(self, rows: Iterable[Row]) -> Sequence[Row]:
        accepted = list(rows)
        self.lake.accepted.rows |= set(accepted)
        return accepted

    def append(self, table: ChunkTable, number: int) -> None:
        """Two rows of today."""
        day = self._today + number % 9 / 10
        table.append_rows(*self._accept([self._row(day), self._row(day)]))

    def append_across(self, table: ChunkTable, number: int) -> None:
        """One commit of several days."""
        days = [max(0, self._today - back) for back in range(number % OLDEST + 1)]
        table.append_rows(*self._accept(self._row(day + 0.5) for day in sorted(set(days))))

    def append_late(self, table: ChunkTable, number: int) -> None:
        """One row of a day that is over; half of the time of one that was dropped."""
        dropped = sorted(c.name for c in self.lake.chunks().values() if c.was_dropped and c.start)
        if number % 2 and dropped:
            start = self.lake.layout.range(chosen(dropped, number))
            assert start is not None
            day = (start.start - T0) / DAY
        else:
            day = max(0, self._today - number % OLDEST)
        table.append_rows(*self._accept([self._row(day + 0.25)]))

    def append_without_time(self, table: ChunkTable, number: int) -> None:
        table.append_rows(*self._accept([self._row(None)]))

    def move_row(self, table: ChunkTable, number: int) -> None:
        """An update of a row's time: from one chunk to another (H3)."""
        if rows := sorted(table.rows_now()):
            old = dict(chosen(rows, number))
            day = max(0, self._today - number % OLDEST)
            self._put(table, [old[ID]], [reading(old[ID], day + 0.75, number)], number)

    def update_rows(self, table: ChunkTable, number: int) -> None:
        """The values of one chunk's rows."""
        if chunks := table.chunks_now():
            rows = [dict(r) for r in sorted(chunks[chosen(sorted(chunks), number)])]
            new = [tuple(sorted({**r, 3: number}.items())) for r in rows]
            self._put(table, [r[ID] for r in rows], new, number // 3)

    def delete_row(self, table: ChunkTable, number: int) -> None:
        if rows := sorted(table.rows_now()):
            self._put(table, [dict(chosen(rows, number))[ID]], [], number // 2)

    def merge(self, table: ChunkTable, number: int) -> None:
        """One row goes, one changes, one comes, in one commit."""
        if len(rows := sorted(table.rows_now())) > 2:
            gone, old = dict(rows[number % len(rows)]), dict(rows[(number + 1) % len(rows)])
            new = [tuple(sorted({**old, 3: number + 1}.items())), self._row(self._today + 0.1)]
            self._put(table, [gone[ID], old[ID]], new, number)

    def _put(self, table: ChunkTable, ids: Sequence[int], new: Sequence[Row], number: int) -> None:
        modes = (COPY_ON_WRITE, MERGE_ON_READ, EQUALITY)[: 1 if table.version == 1 else 3]
        gone = {row for row in table.rows_now() if dict(row)[ID] in ids}
        table.put(ids, new, chosen(modes, number))
        self.lake.accepted.rows -= gone
        self._accept(new)

    # --- no rows -------------------------------------------------------------------------------

    def compact(self, table: ChunkTable, number: int) -> None:
        if chunks := sorted(table.chunks_now()):
            table.compact_chunks(chosen(chunks, number))

    def compact_all(self, table: ChunkTable, number: int) -> None:
        if table.rows_now():
            table.compact_chunks()

    def rewrite_manifests(self, table: ChunkTable, number: int) -> None:
        if table.live():
            table.rewrite_manifests()

    def evolve(self, table: ChunkTable, number: int) -> None:
        """A new column."""
        table.edit(_with_schema(lambda fields, new: [*fields, _long(new, f"c{new}")]))

    def rename(self, table: ChunkTable, number: int) -> None:
        """The column of times gets another name: by its id it is the same."""
        name = chosen(("at", "at_1", "at_2"), number)
        table.edit(
            _with_schema(
                lambda fields, _: [{**f, "name": name} if f["id"] == AT else f for f in fields]
            )
        )

    def cut_anew(self, table: ChunkTable, number: int) -> None:
        table.cut_anew(chosen(("hour", "day"), number))

    def cut_coarsely(self, table: ChunkTable, number: int) -> None:
        """Partitions become longer than chunks."""
        table.cut_anew("month")

    def tag(self, table: ChunkTable, number: int) -> None:
        if table.snapshots:
            table.tag(f"t{number % 3}", chosen(table.snapshots, number))

    # --- other tools ---------------------------------------------------------------------------

    def rollback(self, table: ChunkTable, number: int) -> None:
        """What came after is over; of what had left hot by then cold has what it has."""
        self._point(table, table.snapshots, number)

    def undo_drop(self, table: ChunkTable, number: int) -> None:
        """Main goes back to before a drop of ours."""
        snapshots = table.document["snapshots"]
        drops = [one for one in snapshots if DROP_PLAN in one["summary"]]
        self._point(table, [drop["parent-snapshot-id"] for drop in drops], number)

    def return_to(self, table: ChunkTable, number: int) -> None:
        """Main is set to a snapshot by its id."""
        self._point(table, [number], 0)

    def _point(self, table: ChunkTable, targets: Iterable[int], number: int) -> None:
        """Sets main to one of some snapshots of which everybody knows what it accepted."""
        known = [to for to in targets if to in table.snapshots and to in self.lake.accepted.at]
        if not known:
            return
        to = chosen(known, number)
        table.rollback(to)
        accepted = self.lake.accepted
        cold = set(self.lake.cold_rows())  # a pass may have mirrored deletes by now
        self.lake.in_cold, before = cold, accepted.rows
        accepted.rows = set(accepted.at[to]) & {*table.rows_now(), *cold}
        accepted.back |= accepted.rows - before
        accepted.at[to] = frozenset(accepted.rows)
        line = set(self.lake.rolled_up.line(to))
        accepted.untold |= self._chunks_with(lambda d: d.snapshot_id in line and d.base is None)

    def expire_partition(self, table: ChunkTable, number: int) -> None:
        """Another tool takes a chunk's files; what becomes of cold's copy a person may decide."""
        if chunks := sorted(table.chunks_now()):
            before = set(table.rows_now())
            table.delete_chunks(chosen(chunks, number))
            self.lake.accepted.rows -= before - set(table.rows_now())

    def expire_history(self, table: ChunkTable, number: int) -> None:
        """Another tool leaves what refs name, and nothing of how main came to be."""
        self.lake.accepted.untold |= self._chunks_with(lambda _: True)
        named = {ref["snapshot-id"] for ref in table.refs.values()}
        if free := set(table.snapshots) - named:
            table.expire_elsewhere(*free)

    def _chunks_with(self, is_meant: Callable[[ChunkDrop], bool]) -> set[str]:
        """Chunks with a drop of some kind, by the ledger."""
        chunks = self.lake.chunks().items()
        return {name for name, chunk in chunks if any(map(is_meant, chunk.drops))}

    def replace_table(self, table: ChunkTable, number: int) -> None:
        """`CREATE OR REPLACE TABLE AS SELECT` of what hot has, or of all rows there are."""
        if number % 3 or table.head < 0:
            return
        rows, before, parents = table.rows_now(), table.head, self.lake.rolled_up.parents
        is_whole = number % 2 == 0 and not self.lake.rolled_up.rollups()
        if is_whole:
            rows, self.lake.in_cold = sorted(self.lake.accepted.rows), set(self.lake.cold_rows())
        if not rows:
            return
        line = set() if is_whole else set(self.lake.rolled_up.line(before))
        self.lake.accepted.untold |= self._chunks_with(lambda d: d.snapshot_id not in line)
        table.leave_main()
        # What cold alone has belongs to hot's rows as before, unless hot has all of it by now.
        parents[table.append_rows(*rows)] = None if is_whole else before

    def replace_types(self, table: ChunkTable) -> None:
        """`CREATE OR REPLACE TABLE AS SELECT` of what hot has, with a column of another type."""
        rows = table.rows_now()
        table.leave_main()
        table.edit(_with_schema(lambda fields, _: [_retyped(f) for f in fields]))
        table.append_rows(*rows)

    def empty_days(self, table: ChunkTable, number: int) -> set[Row]:
        """Another tool empties chunks that have most of the rows. Returns the rows that went."""
        before, chunks = set(table.rows_now()), sorted(table.chunks_now().items())
        turned, most = [*chunks[number % len(chunks) :], *chunks[: number % len(chunks)]], 0
        names = []
        for name, rows in turned:
            if most <= len(before) / 2:
                names.append(name)
                most += len(rows)
        table.delete_chunks(*names)
        return before - set(table.rows_now())

    def clone(self, table: ChunkTable, number: int) -> None:
        name = f"lake.air.copy{next(self._clones)}"
        if name.endswith(("1", "2")):
            made = self.lake.clone(table, name)
            self.lake.stories[made.name] = self.lake.stories[table.name].copy()

    def drop_table(self, table: ChunkTable, number: int) -> None:
        if number % 6 == 0:
            self._commands.drop_by_command(Table(self.lake, table.name), number)

    def change_cold(self, number: int) -> int | None:
        """Others change, delete or add a row in cold of a chunk that cold alone has.

        Returns:
            Cold's head from before; None where cold alone has no chunk, or nothing has changed.
        """
        every = sorted(self.lake.cold_rows())
        rows = by_chunk(every, self.lake.layout)
        chunks = sorted(
            name
            for name, chunk in self.lake.chunks().items()
            if chunk.status is ChunkStatus.DROPPED and name in rows
            if chunk.only_copy and chunk.only_copy.digest
        )
        with self.lake.cold_owner() as cold:
            if cold is None or not chunks:
                return None
            row, before = dict(min(rows[chosen(chunks, number)])), cold.head
            changed = tuple(sorted({**row, VALUE: -1}.items()))
            cold.learn_files()
            mode = (COPY_ON_WRITE, MERGE_ON_READ)[number % 2]
            removed, added = [([row[ID]], [changed]), ([row[ID]], []), ([], [changed])][number % 3]
            cold.put(removed, added, mode)
        return None if sorted(self.lake.cold_rows()) == every else before

    def compact_cold(self, table: ChunkTable, number: int) -> None:
        """Cold's owner rewrites a chunk's files, or every file."""
        chunks = sorted(by_chunk(self.lake.cold_rows(), self.lake.layout))
        self.lake.compact_cold(*([chosen(chunks, number)] if chunks and number % 4 else []))

    def expire_cold(self, table: ChunkTable, number: int) -> None:
        self.lake.expire_cold()

    # --- people --------------------------------------------------------------------------------

    def sync(self, table: ChunkTable, number: int) -> None:
        with contextlib.suppress(LockHeld):
            start_sync(self.lake.services(), table.name)

    def stop(self, table: ChunkTable, number: int) -> None:
        with contextlib.suppress(NotChunked, LockHeld):
            stop_sync(self.lake.services(), table.name)

    def tier_after(self, table: ChunkTable, number: int) -> None:
        self._policy(table, PolicyWish(PolicyType.TIERING, tier_after="2d"))

    def drop_after(self, table: ChunkTable, number: int) -> None:
        self._policy(table, PolicyWish(PolicyType.RETENTION, drop_after=f"{4 + number % 9}d"))

    def tier_and_drop(self, table: ChunkTable, number: int) -> None:
        drop = f"{3 + number % 9}d"
        self._policy(table, PolicyWish(PolicyType.TIERED_RETENTION, "2d", drop))

    def keep_latest(self, table: ChunkTable, number: int) -> None:
        wish = PolicyWish(PolicyType.RETENTION, drop_after="3d", keep_latest=1 + number % 3)
        self._policy(table, wish)

    def _policy(self, table: ChunkTable, wish: PolicyWish) -> None:
        with contextlib.suppress(PolicyExists, InvalidHorizons, LockHeld):
            try:
                add_policy(self.lake.services(), table.name, wish)
            except SyncRefused:  # it was rolled back, and has no numbers by which to tell how far
                assert table.version == 1

    def settle(self, table: ChunkTable, number: int) -> None:
        """Somebody who knows answers for each chunk of which the ledger cannot tell."""
        services = self.lake.services()
        with contextlib.suppress(NotChunked, LockHeld, CommitConflict):
            for line in doubtful_chunks(services, table.name):
                answer = self.lake.answer_for(table, line.chunk)
                settle_drops(services, table.name, answer, "seen", [line.chunk])

    def forget(self, table: ChunkTable, number: int) -> None:
        with contextlib.suppress(NotChunked):
            forget_policy(self.lake.services(), table.name, chosen(tuple(PolicyType), number))

    def hold(self, table: ChunkTable, number: int) -> None:
        table.edit(lambda document: document["properties"].update({HOLD: "audit"}))

    def let_go(self, table: ChunkTable, number: int) -> None:
        table.unset(HOLD)

    def chunk(self, number: int) -> str:
        """A chunk that hot has."""
        table = self.lake.hot
        chunks = sorted(by_chunk(table.rows_now(), self.lake.layout)) if table else []
        return chosen(chunks, number) if chunks else ""


def _retyped(field: dict[str, Any]) -> dict[str, Any]:
    """The column of values with a type that its former values cannot become."""
    other = "double" if field["type"] == "long" else "long"
    return {**field, "type": other} if field["id"] == VALUE else field


def _long(id: int, name: str) -> dict[str, Any]:
    return {"id": id, "name": name, "required": False, "type": "long"}


def _with_schema(
    change: Callable[[list[dict[str, Any]], int], list[dict[str, Any]]],
) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        new = document["last-column-id"] + 1
        newest = document["schemas"][-1]
        fields = change(newest["fields"], new)
        id = max(schema["schema-id"] for schema in document["schemas"]) + 1
        schema = {**newest, "schema-id": id, "fields": fields}
        document["schemas"].append(schema)
        last = max(field["id"] for field in fields)
        document |= {"last-column-id": last, "current-schema-id": id}
        if document["format-version"] == 1:
            document["schema"] = schema

    return edit
