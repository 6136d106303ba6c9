"""What rollups should say, computed apart from them, and held against what they say.

A rollup names the snapshot up to which it is refreshed. Each of its buckets equals a look at all
rows of that snapshot; but where a chunk of the bucket had been dropped by then, what hot had of the
whole bucket just before the first such drop, for ever.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from meltline.domain.chunks.ranges import EPOCH, TimeRange
from meltline.domain.chunks.rollup import ROLLUP_COMMIT, ROLLUP_SNAPSHOT, Rollup
from meltline.ports.chunks import DropRequest
from tests.doubles.chunks.rows import TableRows
from tests.lives.watched_changes import is_dropped

if TYPE_CHECKING:
    from tests.chunks.chunked_lake import ChunkedLake

Values = Mapping[str, Any]
Buckets = Mapping[datetime, Counter[tuple[tuple[str, Any], ...]]]
"""The rows of each bucket, by its start."""
_ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
_SUMS = ("n", "total", "mean__sum", "mean__count")


@dataclass(frozen=True)
class Kind:
    """A rollup that lives declare.

    Attributes:
        query: Over the table, or over another rollup.
        floor: When the bucket begins in which a moment lies, and `end` when it ends.
        keys: By what its rows are grouped beside.
    """

    name: str
    query: str
    floor: Callable[[datetime], datetime]
    end: Callable[[datetime], datetime]
    keys: tuple[str, ...] = ()
    below: str = ""


def _of_span(span: timedelta) -> tuple[Callable[[datetime], datetime], ...]:
    return lambda at: at - (at - _ORIGIN) % span, lambda start: start + span


def _next_month(start: datetime) -> datetime:
    return (start + timedelta(days=31)).replace(day=1)


_MONTH = lambda at: at.replace(day=1, hour=0, minute=0, second=0, microsecond=0), _next_month
_OVER_ROWS = (
    "SELECT lakets.time_bucket('{width}', at) AS bucket, {keys}count(*) AS n, sum(value) AS total,"
    " avg(value) AS mean, min(id) AS least, max(id) AS most FROM lake.air.chunks GROUP BY {group}"
)
_OVER_ROLLUP = (
    "SELECT lakets.time_bucket('{width}', bucket) AS bucket, sum(n) AS n, sum(total) AS total,"
    " avg(mean) AS mean, min(least) AS least, max(most) AS most FROM _rollup_{below} GROUP BY 1"
)


def _over_rows(name: str, width: str, times: Sequence[Any], keys: tuple[str, ...] = ()) -> Kind:
    listed = "".join(f"{key}, " for key in keys)
    group = ", ".join(str(place) for place in range(1, len(keys) + 2))
    query = _OVER_ROWS.format(width=width, keys=listed, group=group)
    return Kind(name, query, times[0], times[1], keys)


def _over_rollup(name: str, width: str, times: Sequence[Any], below: str) -> Kind:
    query = _OVER_ROLLUP.format(width=width, below=below)
    return Kind(name, query, times[0], times[1], below=below)


KINDS = {
    kind.name: kind
    for kind in (
        _over_rows("hourly", "1 hour", _of_span(timedelta(hours=1))),
        _over_rows("often", "20 minutes", _of_span(timedelta(minutes=20)), ("value",)),
        _over_rows("daily", "1 day", _of_span(timedelta(days=1))),
        _over_rows("three_days", "3 days", _of_span(timedelta(days=3))),
        _over_rows("monthly", "1 month", _MONTH),
        _over_rollup("days_of_hours", "1 day", _of_span(timedelta(days=1)), "hourly"),
        _over_rollup("weeks_of_days", "1 week", _of_span(timedelta(days=7)), "days_of_hours"),
    )
}


def moment_of(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def of_rows(kind: Kind, rows: Iterable[Values]) -> Buckets:
    """A full look at some rows of the source."""
    groups: dict[tuple[Any, ...], list[Values]] = {}
    for values in rows:
        time = values.get("bucket" if kind.below else "at")
        if time is not None:
            key = (kind.floor(moment_of(time)), *(values.get(name) for name in kind.keys))
            groups.setdefault(key, []).append(values if kind.below else _one(values))
    buckets: dict[datetime, Counter[tuple[tuple[str, Any], ...]]] = {}
    for (start, *keys), group in groups.items():
        answer: dict[str, Any] = {name: sum(v[name] for v in group) for name in _SUMS}
        answer |= {"least": min(v["least"] for v in group), "most": max(v["most"] for v in group)}
        answer["mean"] = answer["mean__sum"] / answer["mean__count"]
        answer |= dict(zip(kind.keys, keys, strict=True))
        buckets.setdefault(start, Counter())[tuple(sorted(answer.items()))] += 1
    return buckets


def _one(values: Values) -> Values:
    value, id = values["value"], values["id"]
    return {
        "n": 1, "total": value, "mean__sum": value, "mean__count": 1, "least": id, "most": id,
    }  # fmt: skip


@dataclass(frozen=True)
class SeenDrop:
    """A drop of chunks: the times that left hot, and what the rollups above said of them."""

    snapshot_id: int
    ranges: Sequence[TimeRange]
    told: Mapping[str, Buckets]


@dataclass
class RollupOracle:
    """Knows what each rollup of a lake should say.

    Attributes:
        parents: Of all snapshots that were ever seen.
        drops: By the registration whose chunks they took, oldest first.
        unsure: Rollups that were refreshed while a drop was undone, by registration and drop.
        positions: Up to where rollups were refreshed at the last look.
        judged: Commits of refreshes that were looked at.
    """

    lake: "ChunkedLake"
    parents: dict[int, int | None] = field(default_factory=dict)
    drops: dict[str, list[SeenDrop]] = field(default_factory=dict)
    unsure: set[tuple[str, int]] = field(default_factory=set)
    positions: dict[str, int | None] = field(default_factory=dict)
    judged: set[int] = field(default_factory=set)
    frozen: int = 0
    kept: int = 0
    _known: dict[tuple[Any, ...], Buckets] = field(default_factory=dict)

    def rollups(self) -> Sequence[Rollup]:
        return self.lake.control.rollups.all()

    def rows_of(self, uuid: str) -> TableRows | None:
        """A registration as engines see it."""
        for table in self.lake.registered():
            if table.uuid == uuid and table.name.catalog == "lake" and not is_dropped(table):
                return TableRows(table.name, table.document, self.lake.store)
        return None

    def told(self, rollup: Rollup, own: TableRows) -> Buckets:
        """What its table says now."""
        key = (rollup.table_uuid, _head(own))
        if key not in self._known:
            buckets: dict[datetime, Counter[tuple[tuple[str, Any], ...]]] = {}
            for values in _rows(own, _head(own)):
                start = moment_of(values["bucket"])
                rest = {name: value for name, value in values.items() if name != "bucket"}
                buckets.setdefault(start, Counter())[tuple(sorted(rest.items()))] += 1
            self._known[key] = buckets
        return self._known[key]

    def computed(self, rollup: Rollup, source: TableRows, snapshot_id: int | None) -> Buckets:
        """What a full look at a snapshot says."""
        key = (rollup.table_uuid, rollup.source_uuid, snapshot_id)
        if key not in self._known:
            rows = _rows(source, snapshot_id)
            self._known[key] = of_rows(KINDS[rollup.name], rows)
        return self._known[key]

    # --- drops ---------------------------------------------------------------------------------

    def before_drop(self, uuid: str, request: DropRequest) -> dict[str, Buckets]:
        """What rollups over a table say of what is about to leave; it has to be all that hot has.

        A bucket that is frozen already is past mending: what came late to it is not in it.
        """
        self._note_parents()
        told: dict[str, Buckets] = {}
        source = self.rows_of(uuid)
        ranges = [t for name in request.chunks if (t := request.layout.range(name))]
        for rollup in self.rollups():
            own = self.rows_of(rollup.table_uuid)
            if rollup.source_uuid != uuid or source is None or own is None:
                continue
            says, whole = self.told(rollup, own), self.computed(rollup, source, _head(source))
            frozen = self._frozen(rollup, _head(source))
            gone = self.own_gone(rollup, own)
            for start in {*says, *whole}:
                times = _times(rollup, start)
                if not any(times.overlaps(t) for t in ranges) or _is_in(times, gone):
                    continue
                if self._is_pending(rollup, times):
                    continue
                if not any(times.overlaps(t) for drop in frozen for t in drop.ranges):
                    self.frozen += 1
                    assert says.get(start) == whole.get(start), (
                        f"LT-30: {rollup.name} of {start} is frozen at {says.get(start)},"
                        f" and hot has {whole.get(start)}"
                    )
            told[rollup.table_uuid] = dict(says)
        return told

    def dropped(self, uuid: str, told: dict[str, Buckets], request: DropRequest, to: int) -> None:
        ranges = [t for name in request.chunks if (t := request.layout.range(name))]
        self.drops.setdefault(uuid, []).append(SeenDrop(to, ranges, told))
        self._note_parents()

    # --- what always holds ---------------------------------------------------------------------

    def check(self) -> None:
        self._note_parents()
        for rollup in self.rollups():
            own, source = self.rows_of(rollup.table_uuid), self.rows_of(rollup.source_uuid)
            if own is not None and ROLLUP_SNAPSHOT in own.document["properties"]:
                self._check_commits(rollup, own)
                if source is not None:
                    self._check_rows(rollup, own, source)

    def _check_rows(self, rollup: Rollup, own: TableRows, source: TableRows) -> None:
        at = int(own.document["properties"][ROLLUP_SNAPSHOT])
        position = None if at == -1 else at
        known = {s["snapshot-id"] for s in source.document["snapshots"]}
        whole = None
        if position is None or position in known:
            whole = self.computed(rollup, source, position)
        says, drops = self.told(rollup, own), self._frozen(rollup, position)
        self._note_unsure(rollup, position)
        gone = self.own_gone(rollup, own)
        for start in {*says, *(whole or {})}:
            times = _times(rollup, start)
            first = next((d for d in drops if any(times.overlaps(t) for t in d.ranges)), None)
            if self._is_pending(rollup, times):
                continue
            if _is_in(times, gone):
                assert start not in says, f"{rollup.name} of {start} was dropped, and is back"
            elif first is None:
                assert whole is None or says.get(start) == whole.get(start), (
                    f"LT-28: {rollup.name} of {start} says {says.get(start)},"
                    f" not {whole.get(start)}"
                )
            elif (rollup.table_uuid, first.snapshot_id) not in self.unsure:
                self.kept += 1
                value = first.told.get(rollup.table_uuid, {}).get(start)
                assert says.get(start) == value, (
                    f"LT-30: {rollup.name} of {start} was frozen at {value},"
                    f" and says {says.get(start)}"
                )

    def _is_pending(self, rollup: Rollup, times: TimeRange) -> bool:
        """Whether nobody can say what a bucket should be.

        It waits for a person's answer about a drop, or for the next refresh; or others emptied its
        chunk, and a person has cold keep the rows: it is frozen, whenever it was refreshed last.
        """
        chunks = self.lake.control.chunks.of(rollup.source_uuid).values()
        ours = {drop.snapshot_id for drop in self.drops.get(rollup.source_uuid, ())}
        others = [c.range for c in chunks if {d.snapshot_id for d in c.drops} - ours]
        unknown = [c.range for c in self.lake.as_main_says(chunks) if not c.is_told]
        return _is_in(times, [*filter(None, (*others, *unknown)), *rollup.invalidated])

    def _frozen(self, rollup: Rollup, position: int | None) -> list[SeenDrop]:
        """The drops of its source that a snapshot comes from."""
        line = set(self.line(position))
        return [d for d in self.drops.get(rollup.source_uuid, ()) if d.snapshot_id in line]

    def _note_unsure(self, rollup: Rollup, position: int | None) -> None:
        """A drop was undone, and the rollup refreshed meanwhile: its buckets are others since.

        So they are where it was refreshed at an older snapshot than the one before the drop.
        """
        line, uuid = set(self.line(position)), rollup.table_uuid
        former = self.positions.get(uuid)
        self.positions[uuid] = position
        for drop in self.drops.get(rollup.source_uuid, ()):
            to_come = position is None or position in self.line(drop.snapshot_id)
            if to_come and former not in line and former in self.line(drop.snapshot_id):
                self.unsure.add((uuid, drop.snapshot_id))
            if drop.snapshot_id not in line and not to_come:
                self.unsure.add((rollup.table_uuid, drop.snapshot_id))

    def own_gone(self, rollup: Rollup, own: TableRows) -> list[TimeRange]:
        """What a policy of its own has taken away."""
        line = set(self.line(_head(own)))
        drops = self.drops.get(rollup.table_uuid, ())
        return [times for drop in drops if drop.snapshot_id in line for times in drop.ranges]

    def _check_commits(self, rollup: Rollup, own: TableRows) -> None:
        """A refresh takes away no file without a bucket that it changed (LT-28)."""
        known = {s["snapshot-id"] for s in own.document["snapshots"]}
        for snapshot in own.document["snapshots"]:
            id, parent = snapshot["snapshot-id"], snapshot.get("parent-snapshot-id")
            if id in self.judged or ROLLUP_COMMIT not in snapshot["summary"]:
                continue
            self.judged.add(id)
            if parent is None or parent not in known:
                continue
            before, after = (Counter(own.rows_at(at)) for at in (parent, id))
            changed = {dict(row)[1] for row in (before - after) + (after - before)}
            left = {f.path for f in own.live(parent)} - {f.path for f in own.live(id)}
            for path in left:
                buckets = {dict(row)[1] for row in own.rows_at(parent, {path})}
                assert buckets & changed, f"{rollup.name}: {path} went, and nothing of it changed"

    # --- history -------------------------------------------------------------------------------

    def _note_parents(self) -> None:
        for table in self.lake.registered():
            for snapshot in table.document["snapshots"]:
                id = snapshot["snapshot-id"]
                self.parents.setdefault(id, snapshot.get("parent-snapshot-id"))

    def line(self, head: int | None) -> list[int]:
        """A snapshot and those that it comes from, expired ones too."""
        line = []
        if head not in self.parents:
            self._note_parents()
        while head is not None:
            line.append(head)
            head = self.parents.get(head)
        return line


def _head(table: TableRows) -> int | None:
    main = (table.document.get("refs") or {}).get("main")
    return None if main is None else int(main["snapshot-id"])


def _rows(table: TableRows, snapshot_id: int | None) -> list[Values]:
    """Rows by the present names of columns; the time column by the name of tests."""
    if snapshot_id is None:
        return []
    schemas, current = table.document.get("schemas"), table.document.get("current-schema-id", 0)
    schema = next(s for s in schemas or [table.document["schema"]] if s["schema-id"] == current)
    names = {field["id"]: field["name"] for field in schema["fields"]}
    names = {id: "at" if name.startswith("at_") else name for id, name in names.items()}
    return [{names[id]: value for id, value in row} for row in table.rows_at(snapshot_id)]


def _times(rollup: Rollup, start: datetime) -> TimeRange:
    return TimeRange(start, KINDS[rollup.name].end(start))


def _is_in(times: TimeRange, ranges: Sequence[TimeRange]) -> bool:
    return any(times.overlaps(other) for other in ranges)
