"""A lake that is watched: every commit and delete of ours, and the whole of it after every step.

What is checked are the invariants I-1 to I-7, each against `tests.unit.oracle`.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from meltline.app.observe import observe
from meltline.app.report import standing_now, storage_rows
from meltline.app.services import Services
from meltline.app.summary import Summary
from meltline.domain.files import DepartureState, PlannedFile
from meltline.domain.names import TableName
from meltline.domain.plan import Plan, PlanKind, PlanState
from meltline.domain.storage import Stage
from meltline.ports import CommitOutcome, Committer, DeleteOutcome
from tests.unit.lake import DAY, WAREHOUSE, Lake, Table
from tests.unit.oracle import Document, Story, Walk, logged, promised

FAILSAFE = timedelta(days=7)
DEFAULT_WINDOW = 7
HOLD, ENABLED = "meltline.hold", "meltline.enabled"
WINDOW = "meltline.retention-days"
RANKS = {DepartureState.FAILSAFE: 3, DepartureState.DELETED: 4}


@dataclass
class WatchedLake(Lake):
    """The lake, and what an outsider knows of it.

    Attributes:
        stories: What has really happened to each table.
        dropped: What each dropped table referred to, as far as an observation had seen it.
        observed: What each table referred to when it was last observed.
        seen: Every file that some observation has seen.
        glimpsed: Files of tables that some observation could not read completely.
        lost: Files that other tools have deleted.
        ours: Files that lay with managed tables alone while they were needed.
        last_needed: When each file was last referred to by anything.
        contents: What each file held when it was first there.
    """

    stories: dict[TableName, Story] = field(default_factory=dict)
    dropped: dict[str, set[str]] = field(default_factory=dict)
    observed: dict[TableName, set[str]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    glimpsed: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    ours: set[str] = field(default_factory=set)
    last_needed: dict[str, datetime] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = count(1)
        self.unique = lambda: f"m{next(numbers)}"
        super().__post_init__()
        self.walk = Walk(self.store)
        self.departed: dict[str, tuple[DepartureState, datetime]] = {}
        self.returns: Counter[str] = Counter()
        self.folders_of_the_dropped: set[str] = set()

    def services(self, **changes: Any) -> Services:
        built = super().services(**changes)
        watched = {
            "committer": _WatchedCommitter(self, built.committer),
            "deleter": _WatchedDeleter(self),
        }
        return replace(built, **{**watched, **changes})

    # --- what an outsider sees -----------------------------------------------------------------

    def locations(self) -> dict[TableName, str]:
        return {n: at for c in self.catalogs.values() for n, at in c._tables.items()}

    def tables(self) -> list[Table]:
        return [Table(self, name) for name in sorted(self.locations())]

    def needs(self) -> set[str]:
        """Every file that a table refers to, or a dropped one did."""
        found = [self.walk.of_table(location) for location in self.locations().values()]
        return set().union(*found, *self.dropped.values())

    def owners(self, path: str) -> list[Table]:
        """The tables in whose folder a file lies, the innermost one."""
        tables = [table for table in self.tables() if path.startswith(f"{table.location}/")]
        deepest = max((len(table.location) for table in tables), default=0)
        return [table for table in tables if len(table.location) == deepest]

    def is_ours(self, path: str) -> bool:
        """Whether a file lies with tables that are all managed."""
        owners = self.owners(path)
        return bool(owners) and all(self.is_managed(table) for table in owners)

    def is_managed(self, table: Table) -> bool:
        enabled = table.document["properties"].get(ENABLED, "true") == "true"
        return table.name.catalog == "lake" and enabled

    def window(self, table: Table) -> timedelta:
        return int(table.document["properties"].get(WINDOW, DEFAULT_WINDOW)) * DAY

    def is_held(self, table: Table) -> bool:
        listed = self.catalogs[table.name.catalog].listing().namespaces
        around = [listed.get(table.name.namespace, {}), table.document["properties"]]
        return any(properties.get(HOLD) for properties in around)

    # --- looking -------------------------------------------------------------------------------

    def look(self) -> None:
        """An observation of ours, and what it could see."""
        observe(self.services())
        self.looked()

    def looked(self) -> None:
        for catalog in self.catalogs.values():
            if catalog.unlistable:
                continue
            for name, location in catalog._tables.items():
                needs = self.walk.of_table(location)
                if needs & self.spoilt - self.seen:
                    self.glimpsed |= needs
                    continue
                self.observed[name] = needs
                self.seen |= needs
                self.stories[name].observed(self.walk.document(location), self.clock.now())

    def told(self) -> None:
        """Notes what has happened to main's head of every table."""
        for name, location in self.locations().items():
            story = self.stories.setdefault(name, Story())
            story.happened(self.walk.document(location), self.clock.now())

    # --- the invariants ------------------------------------------------------------------------

    def check(self) -> None:
        self.told()
        needs, there = self.needs(), {s.path for s in self.store.list(WAREHOUSE)}
        missing = needs - there
        assert not missing, f"I-1: needed and gone: {sorted(missing)}"
        self._check_departures(needs)
        for path in there:
            content = self.store.read(path)
            before = self.contents.setdefault(path, content)
            assert content == before or path in self.spoilt, f"I-5: {path} has changed"
        self.ours |= {path for path in needs - self.ours if self.is_ours(path)}
        self.last_needed.update(dict.fromkeys(needs, self.clock.now()))

    def _check_departures(self, needs: set[str]) -> None:
        """I-2: a recorded stage moves right, or somebody logged why it did not; I-4: no reset."""
        now = {
            d.path: (d.state, d.due_at) for d in self.files.departures(frozenset(DepartureState))
        }
        logged_returns = Counter(
            path
            for entry in self.control.audit()
            if entry.action == "cancel departure"
            for path in entry.detail.splitlines()
        )
        back = logged_returns - self.returns
        for path, (state, due) in now.items():
            was, was_due = self.departed.get(path, (None, due))
            if state is was is DepartureState.FAILSAFE:
                assert due == was_due or back[path], f"I-4: {path}: due_at moved"
            elif was in RANKS and RANKS.get(state, 0) < RANKS[was]:
                written_again = was is DepartureState.DELETED and path in self.last_needed
                assert back[path] or written_again, f"I-2: {path}: {was} to {state}"
            if state is DepartureState.DELETED:
                assert path not in needs or self.store.size(path) is not None
        assert self.departed.keys() <= now.keys(), "I-2: a record was lost"
        self.departed, self.returns = now, logged_returns

    def check_accounts(self) -> None:
        """I-2, I-3: each byte under a managed prefix stands in one stage, and none is made up."""
        self.check()
        standing = standing_now(self.services())
        stages = {f.path: f for f in standing.files.values() if f.stage is not Stage.DELETED}
        disk = {s.path: len(self.contents[s.path]) for s in self.store.list(WAREHOUSE)}
        unsure = (self.glimpsed - self.seen) | (self.lost - disk.keys())
        held = {p: b for p, b in disk.items() if p in self.seen and self.is_ours(p)}
        counted = {p: f.bytes for p, f in stages.items() if self.is_ours(p) and p not in unsure}
        assert counted == held, f"I-3: {_difference(counted, held)}"
        rows = storage_rows(standing)
        total = sum(
            r.active_bytes + r.historical_bytes + r.retained_for_clone_bytes + r.failsafe_bytes
            for r in rows
        )
        known = {file.owner for file in stages.values()} & {row.table_uuid for row in rows}
        assert total == sum(f.bytes for f in stages.values() if f.owner in known), "I-3: the sum"
        needs = self.needs()
        waiting = {path for path, file in stages.items() if file.stage is Stage.FAILSAFE}
        assert not waiting & needs, f"I-2: needed and in failsafe: {sorted(waiting & needs)}"

    def check_all_is_gone(self) -> None:
        """On time: only what something needs, or what no observation ever saw, is left."""
        for table in self.tables():
            document = table.document
            if self.is_managed(table):
                left = set(table.snapshots) - self._still_kept(document)
                assert not left, f"{table.name}: never expired: {sorted(left)}"
        left = {path for path in self.paths() & self.seen if self.is_ours(path)} - self.needs()
        left = {path for path in left if not path.startswith(tuple(self.folders_of_the_dropped))}
        assert not left, f"never purged: {sorted(left)}"

    def _still_kept(self, document: Document) -> set[int]:
        """What a table keeps when nothing has happened to it for longer than any window."""
        long_ago = datetime.max.replace(tzinfo=UTC)
        return promised(document, Story(), long_ago, timedelta(0)).keys() | logged(
            document, long_ago
        )

    # --- the chain -----------------------------------------------------------------------------

    def run(self, run_id: str = "", as_of: datetime | None = None, **more: Any) -> Summary:
        """A whole run; what it sees before and after, an outsider may count as observed."""
        self.looked()
        summary = super().run(run_id, as_of, **more)
        self.looked()
        return summary

    def check_nothing_is_missing(self) -> None:
        """Checked after every step, and against more than the living tables."""

    def evidence_of_work(self) -> Any:
        """All that may not change when there is nothing to do (I-7)."""
        paths = frozenset(self.paths())
        return self.locations(), paths, dict(self.files.commits), len(self.control.plans())


def _difference(one: dict[str, int], other: dict[str, int]) -> str:
    keys = [key for key in one.keys() | other.keys() if one.get(key) != other.get(key)]
    return "; ".join(f"{key}: {one.get(key)} and {other.get(key)}" for key in sorted(keys)[:5])


@dataclass
class _WatchedCommitter:
    """Holds every expiration commit against what was promised, at that very moment (I-6)."""

    lake: WatchedLake
    committer: Committer

    def expire(
        self, table: TableName, base_location: str, snapshots: Sequence[int], refs: Sequence[str]
    ) -> CommitOutcome | None:
        standing = Table(self.lake, table)
        if standing.metadata_location == base_location:
            self._check(standing, set(snapshots), set(refs))
        return self.committer.expire(table, base_location, snapshots, refs)

    def _check(self, table: Table, snapshots: set[int], refs: set[str]) -> None:
        lake, document = self.lake, table.document
        (plan,) = _applying(lake, PlanKind.EXPIRE, table.uuid, table.name)
        assert set(plan.snapshots) == snapshots and set(plan.refs) == refs
        _check_gate(lake, plan)
        assert lake.is_managed(table) and not lake.is_held(table), f"{table.name} is not ours"
        told = promised(document, lake.stories[table.name], plan.as_of, lake.window(table))
        broken = {id: told[id] for id in snapshots & told.keys()}
        assert not broken, f"I-6: {table.name}: about to expire what was promised: {broken}"
        leased = {lease.snapshot_id for lease in lake.control.leases(lake.clock.now())}
        assert not leased & snapshots, "about to expire what is leased"


@dataclass
class _WatchedDeleter:
    """Holds every delete against the walk, the calendar and the gate (I-1, I-4)."""

    lake: WatchedLake

    def delete(self, paths: Sequence[str], keys_per_second: int) -> Sequence[DeleteOutcome]:
        lake, now = self.lake, self.lake.clock.now()
        needed = sorted(lake.needs() & set(paths))
        assert not needed, f"I-1: about to delete what is needed: {needed}"
        for path in paths:
            since = lake.last_needed.get(path)
            assert since is not None, f"about to delete what no table ever referred to: {path}"
            assert now - since >= FAILSAFE, f"I-4: {path} was needed {now - since} ago"
            assert path in lake.ours or lake.is_ours(path), f"{path} was never ours to delete"
        self._check_plan(set(paths))
        lake.deleter.deleted += paths
        return lake.store.delete(paths)

    def _check_plan(self, paths: set[str]) -> None:
        plans = list(_applying(self.lake, PlanKind.PURGE))
        mine = [p for p in plans if paths <= {f.path for f in _items(self.lake, p)}]
        assert mine, "I-4: deletes without a plan"
        for plan in mine:
            _check_gate(self.lake, plan)


def _applying(
    lake: Lake, kind: PlanKind, uuid: str = "", name: TableName | None = None
) -> Iterator[Plan]:
    for plan in lake.control.plans(states=[PlanState.APPLYING], table_uuid=uuid):
        if plan.kind is kind and name in (None, plan.table):
            yield plan


def _items(lake: Lake, plan: Plan) -> Sequence[PlannedFile]:
    return lake.files.items([plan.id])[plan.id]


def _check_gate(lake: Lake, plan: Plan) -> None:
    """I-4: a fresh, passed gate for exactly these items. The digest is made as the docs say."""
    lines = [f"{plan.table_uuid}\tsnapshot\t{id}\n" for id in plan.snapshots]
    lines += [f"{plan.table_uuid}\tref\t{ref}\n" for ref in plan.refs]
    lines += [f"{plan.table_uuid}\t{f.kind}\t{f.path}\n" for f in _items(lake, plan)]
    digest = hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
    result = lake.control.gate_result(plan.id)
    assert result is not None and not result.failed and not result.error and result.evaluated > 0
    assert result.digest == plan.digest == f"sha256:{digest}", "I-4: the gate saw another plan"
    assert result.ran_at <= lake.clock.now() < result.valid_until, "I-4: the gate is too old"
