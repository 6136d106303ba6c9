"""Tiny table histories as one-liners, and random ones.

`history().commit("S1", day=0).commit("S2", day=3).rollback_to("S1", day=4).tag("t", "S2")`

Snapshots have names; their ids are given in the order of their making. The builder does to the
metadata what Iceberg does: the snapshot log, its truncation when a logged snapshot is removed, a
replaced table, a staged snapshot, a fast-forward. It also keeps the truth, which no other tool's
expiry can take from it: when each snapshot was main's head.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from meltline.domain.deletion.plan import Plan, PlanKind, plan_digest
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import (
    MAIN,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    TableMetadata,
)
from meltline.domain.retention.retained_snapshots import (
    KeepRequest,
    KeepSet,
    SnapshotObservation,
    keep_set,
)
from meltline.domain.retention.snapshot_observations import next_sightings
from meltline.domain.units import from_millis, parse_instant, to_millis

DAY_MS = 86_400_000
NAME = TableName("lake", ("air",), "flights")
UUID = "0b0c2a52-6a2a-4f6c-8f5e-2f3c1d1b7a10"
START = parse_instant("2026-01-01T00:00:00Z")


def instant(day: float, *, ms: int = 0) -> datetime:
    """The instant `day` days of 24 hours after the story's start, `ms` milliseconds later."""
    return from_millis(to_millis(START) + round(day * DAY_MS) + ms)


def days(count: float) -> timedelta:
    return timedelta(milliseconds=round(count * DAY_MS))


def millis(count: float) -> int:
    """Days as Iceberg's ages in milliseconds."""
    return round(count * DAY_MS)


@dataclass(frozen=True)
class Held:
    """From `at` on, until the next one, `snapshot_id` was main's head; None: it was empty."""

    at: datetime
    snapshot_id: int | None


class History:
    """A table's story. Every method that tells more of it returns the story."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self.refs: dict[str, SnapshotRef] = {}
        self.log: list[SnapshotLogEntry] = []
        self.truth: list[Held] = []
        self.sightings: dict[int, SnapshotObservation] = {}
        self.last_look: datetime | None = None
        self.properties: dict[str, str] = {}

    # --- what writers do -----------------------------------------------------------------------

    def commit(self, name: str, day: float, branch: str = MAIN) -> "History":
        ref = self.refs.get(branch)
        self._add(name, day, None if ref is None else ref.snapshot_id)
        return self._point(branch, self.ids[name], instant(day))

    def stage(self, name: str, day: float) -> "History":
        """Write-audit-publish: a snapshot on main's head that no ref points at."""
        main = self.refs.get(MAIN)
        return self._add(name, day, None if main is None else main.snapshot_id)

    def cherry_pick(self, name: str, day: float, new: str = "") -> "History":
        """Publishes a staged snapshot: itself where its parent is the head, else a new one."""
        head = self.refs.get(MAIN)
        parent = self.snapshots[self.ids[name]].parent_id
        if parent == (None if head is None else head.snapshot_id):
            return self._point(MAIN, self.ids[name], instant(day))
        return self.commit(new or f"picked {name}", day)

    def rollback_to(self, name: str, day: float) -> "History":
        return self._point(MAIN, self.ids[name], instant(day))

    def fast_forward(self, branch: str, to: str, day: float) -> "History":
        return self._point(branch, self.refs[to].snapshot_id, instant(day))

    def replace(self, name: str, day: float) -> "History":
        """CREATE OR REPLACE TABLE … AS SELECT: clears the log; no parent."""
        return self.replace_by_empty(day).commit(name, day)

    def replace_by_empty(self, day: float) -> "History":
        del self.refs[MAIN]
        self.log.clear()
        self.truth.append(Held(instant(day), None))
        return self

    def branch(self, name: str, at: str = "", **ages: int) -> "History":
        head = self.ids[at] if at else self.refs[MAIN].snapshot_id
        self.refs[name] = SnapshotRef(name, head, is_branch=True, **ages)
        return self

    def tag(self, name: str, at: str, **ages: int) -> "History":
        self.refs[name] = SnapshotRef(name, self.ids[at], is_branch=False, **ages)
        return self

    def main_keeps(self, **ages: int) -> "History":
        self.refs[MAIN] = replace(self.refs[MAIN], **ages)  # type: ignore[arg-type]
        return self

    def drop_ref(self, name: str) -> "History":
        del self.refs[name]
        return self

    def having(self, key: str, value: object) -> "History":
        self.properties[key] = str(value)
        return self

    # --- what other tools and our observations do ------------------------------------------------

    def expired_elsewhere(self, name: str, *, leaves_gap: bool = False) -> "History":
        """Another tool removes a snapshot by its id: Iceberg also cuts the log before it."""
        gone = self.ids[name]
        del self.snapshots[gone]
        if leaves_gap:
            self.log = [entry for entry in self.log if entry.snapshot_id != gone]
            return self
        last = max((n for n, e in enumerate(self.log) if e.snapshot_id == gone), default=-1)
        self.log = self.log[last + 1 :]
        return self

    def observe(self, day: float) -> "History":
        """What `meltline observe` remembers of the table at that time."""
        now = instant(day)
        self.sightings = next_sightings(self.state(), self.sightings, self.last_look, now)
        self.last_look = now
        return self

    # --- what comes of it ------------------------------------------------------------------------

    def state(self, **changes: Any) -> TableMetadata:
        state = TableMetadata(
            name=NAME,
            uuid=UUID,
            metadata_location="file:/wh/air/flights/metadata/v9.metadata.json",
            metadata_bytes=1000,
            location="file:/wh/air/flights",
            format_version=2,
            last_updated=max(self.times(), default=START),
            snapshots=dict(self.snapshots),
            refs=dict(self.refs),
            snapshot_log=tuple(self.log),
            metadata_log=(),
            statistics=(),
            properties=dict(self.properties),
        )
        return replace(state, **changes)

    def request(self, day: float, window: float | None, **more: Any) -> KeepRequest:
        """The keep set's question on `day`; `leased` and `handoff_pending` are names."""
        for key in ("leased", "handoff_pending"):
            more[key] = frozenset(self.ids[name] for name in more.get(key, ()))
        more.setdefault("as_of", instant(day))
        return KeepRequest(
            state=self.state(),
            window=None if window is None else days(window),
            sightings=dict(self.sightings),
            **more,
        )

    def keeps(self, day: float, window: float | None, **more: Any) -> KeepSet:
        return keep_set(self.request(day, window, **more))

    def kept(self, day: float, window: float | None, **more: Any) -> set[str]:
        """Names of the kept snapshots."""
        return self.names(self.keeps(day, window, **more).reasons)

    def expired(self, day: float, window: float | None, **more: Any) -> set[str]:
        """Names of the expired snapshots."""
        return self.names(self.keeps(day, window, **more).expired)

    def why(self, name: str, day: float, window: float | None, **more: Any) -> set[str]:
        """The reasons for which a snapshot is kept."""
        return {str(r) for r in self.keeps(day, window, **more).reasons.get(self.ids[name], ())}

    def plan(self, day: float, window: float | None, **more: Any) -> Plan:
        """The expiration plan of that day."""
        keeps, state = self.keeps(day, window, **more), self.state()
        return Plan(
            id="e1",
            run_id="r1",
            kind=PlanKind.EXPIRE,
            table=NAME,
            table_uuid=UUID,
            digest=plan_digest(UUID, keeps.expired, keeps.expired_refs, ()),
            as_of=instant(day),
            created_at=instant(day),
            base_location=state.metadata_location,
            snapshots=keeps.expired,
            refs=keeps.expired_refs,
            heads=state.heads,
            window_start=None if window is None else instant(day) - days(window),
        )

    def times(self) -> set[datetime]:
        """When snapshots were made, and when main moved."""
        return {h.at for h in self.truth} | {s.committed_at for s in self.snapshots.values()}

    def names(self, ids: Iterable[int]) -> set[str]:
        by_id = {sid: name for name, sid in self.ids.items()}
        return {by_id[sid] for sid in ids}

    def _add(self, name: str, day: float, parent: int | None) -> "History":
        assert name not in self.ids, f"{name} is told twice"
        sid = self.ids[name] = len(self.ids) + 1
        self.snapshots[sid] = Snapshot(sid, instant(day), parent, sid, f"file:/wh/snap-{sid}.avro")
        return self

    def _point(self, branch: str, sid: int, at: datetime) -> "History":
        old = self.refs.get(branch)
        self.refs[branch] = (
            SnapshotRef(branch, sid, is_branch=True)
            if old is None
            else replace(old, snapshot_id=sid)
        )
        if branch == MAIN:
            self.log.append(SnapshotLogEntry(at, sid))
            self.truth.append(Held(at, sid))
        return self


def history() -> History:
    """An empty table."""
    return History()


STEPS = (1 / DAY_MS, 1 / 24, 0.5, 1, 1, 3)
PLAIN = ("commit", "commit", "commit", "rollback", "stage", "cherry-pick", "tag", "observe",
    "consumer",
)  # fmt: skip
BRANCHING = ("branch", "branch commit", "branch commit", "publish", "drop ref", "replace")


@st.composite
def histories(draw: st.DrawFn, *, foreign_expiry: bool = False, most: int = 14) -> History:
    """Random stories of at most `most` events."""
    story = history().commit("S0", day=0)
    operations = PLAIN + BRANCHING + (("expired elsewhere",) if foreign_expiry else ())
    day = 0.0
    for operation in draw(st.lists(st.sampled_from(operations), max_size=most)):
        day += draw(st.sampled_from(STEPS))
        tell(draw, story, operation, day)
    if draw(st.booleans()):
        story.having("history.expire.min-snapshots-to-keep", draw(st.integers(1, 3)))
    if draw(st.booleans()):
        story.having("history.expire.max-ref-age-ms", millis(draw(st.integers(1, 12))))
    return story


def tell(  # noqa: PLR0912 - one branch per operation
    draw: st.DrawFn, story: History, operation: str, day: float
) -> None:
    """Adds one event to a story, where it fits."""
    new = f"S{len(story.ids)}"
    alive = sorted(story.names(story.snapshots), key=lambda name: story.ids[name])
    side = sorted(name for name, ref in story.refs.items() if ref.is_branch and name != MAIN)
    main = MAIN in story.refs
    match operation:
        case "commit":
            story.commit(new, day)
        case "rollback" if main:
            story.rollback_to(draw(st.sampled_from(alive)), day)
        case "stage":
            story.stage(new, day)
        case "cherry-pick":
            story.cherry_pick(draw(st.sampled_from(alive)), day, new)
        case "tag":
            age = draw(st.sampled_from([None, millis(1), millis(4)]))
            story.tag(f"t{new}", draw(st.sampled_from(alive)), max_ref_age_ms=age)  # type: ignore[arg-type]
        case "consumer":
            age = draw(st.sampled_from([None, millis(2), millis(6)]))
            name = draw(st.sampled_from(["consumer__a", "consumer__b"]))
            story.tag(name, draw(st.sampled_from(alive)), max_ref_age_ms=age)  # type: ignore[arg-type]
        case "branch":
            age = draw(st.sampled_from([None, millis(2)]))
            story.branch(f"b{len(side)}", draw(st.sampled_from(alive)), max_ref_age_ms=age)  # type: ignore[arg-type]
        case "branch commit" if side:
            story.commit(new, day, branch=draw(st.sampled_from(side)))
        case "publish" if side and main:
            story.fast_forward(MAIN, draw(st.sampled_from(side)), day)
        case "drop ref" if names := sorted(story.refs.keys() - {MAIN}):
            story.drop_ref(draw(st.sampled_from(names)))
        case "replace" if main:
            story.replace(new, day)
        case "expired elsewhere":
            named = {ref.snapshot_id for ref in story.refs.values()}
            if free := [name for name in alive if story.ids[name] not in named]:
                gap = draw(st.booleans())
                story.expired_elsewhere(draw(st.sampled_from(free)), leaves_gap=gap)
        case "observe":
            story.observe(day)
        case _:
            pass


def moments(story: History) -> list[datetime]:
    """Every time at which something happened, and the millisecond before and after."""
    around = [timedelta(milliseconds=ms) for ms in (-1, 0, 1)]
    return sorted({time + shift for shift in around for time in story.times()})
