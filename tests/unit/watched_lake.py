"""A lake that is watched: every commit and delete of ours, and the whole of it after every step.

What is checked are the invariants I-1 to I-7, each against `tests.unit.oracle`.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count
from typing import Any, TypeVar

from meltline.adapters.catalogs.table_renames import Namespaces
from meltline.app.observe.observe import observe
from meltline.app.observe.ref_check import KIND as HEAD_CHANGED
from meltline.app.orphans.sweep import SweepServices
from meltline.app.run.lifecycle import run_stage
from meltline.app.run.stages import SWEEP
from meltline.app.run.summary import Summary
from meltline.app.services import RunContext
from meltline.app.storage.file_status import Standing, standing_now
from meltline.app.storage.report import storage_rows, totals_now
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.deletion.storage import Stage
from meltline.domain.iceberg.files import DepartureState, PlannedFile
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import DROPPED_NAMESPACE
from meltline.ports import (
    CommitOutcome,
    Committer,
    DeleteOutcome,
    NewTable,
    TableEdit,
    TableMove,
)
from meltline.testing.catalog import MemoryCatalog
from meltline.testing.files import MemoryLedgerReader
from meltline.testing.sweeper import MemorySweeper
from tests.unit.lake import DAY, OUTSIDE, WAREHOUSE, Lake, Table
from tests.unit.oracle import (
    Story,
    Walk,
    logged,
    on_branches,
    promised,
    promised_of_dropped,
)
from tests.unit.streaming import answers

Key = TypeVar("Key", str, tuple[str, Stage])
FAILSAFE = timedelta(days=7)
SWEPT_FROM = timedelta(days=3)  # the least age at which a file counts as left behind
DEFAULT_WINDOW = 7
HOLD, ENABLED = "meltline.hold", "meltline.enabled"
WINDOW = "meltline.retention-days"
WRITERS = "meltline.writer-keep"
Place = tuple[str, str]
"""A UUID and a folder: copies by rewritten paths share the first, a table's names both."""
RANKS = {DepartureState.FAILSAFE: 3, DepartureState.DELETED: 4}


@dataclass(frozen=True)
class Gone:
    """A name that an engine dropped.

    Attributes:
        name: Of which table, and which one had it.
        location: Where it stood when it was last observed.
        needs: What it referred to then, as far as that is still there.
        folder: Where it lay.
        held: Whether it was under a hold.
    """

    name: tuple[TableName, Place]
    location: str
    needs: set[str]
    folder: str
    held: bool


@dataclass
class WatchedLake(Lake):
    """The lake, and what an outsider knows of it.

    Attributes:
        stories: What has really happened to each table.
        gone: Names that engines dropped, and from which no other name goes on.
        restorable: Until when, at least, a dropped table can be brought back, by its place and
            the metadata file at which it was dropped.
        let_go: Where the dropped tables lay that Meltline has taken care of.
        unknown: Where tables lay that engines dropped before anybody had observed them.
        observed: Where each table stood when it was last observed, and what it referred to.
        seen: Every file that some observation has seen.
        read: What each registration referred to when it was read: a second one is read anew.
        glimpsed: Files of tables that some observation could not read completely.
        lost: Files that other tools have deleted.
        ours: Files that lay with managed tables alone while they were needed.
        last_needed: When each file was last referred to by anything.
        contents: What each file held when it was first there.
        strays: Files that writers left without committing them, and when.
        rewritten: Paths under which a new object was put, and when.
        sizes: What the objects under such a path have measured: the ledgers know the one that was
            there when a commit named it, and of a later one nothing until a purge looks at it.
        looks: How often all that anything needs was held against what is there.
        is_stopped: Whether a person has stopped everything, and not said go since.
        is_denied: Whether somebody took back a word for a table that nobody can read.
    """

    stories: dict[TableName, Story] = field(default_factory=dict)
    gone: list[Gone] = field(default_factory=list)
    restorable: dict[tuple[Place, str], datetime] = field(default_factory=dict)
    let_go: dict[Place, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    observed: dict[TableName, tuple[str, set[str]]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    read: dict[tuple[TableName, Place], set[str]] = field(default_factory=dict)
    glimpsed: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    ours: set[str] = field(default_factory=set)
    last_needed: dict[str, datetime] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    strays: dict[str, datetime] = field(default_factory=dict)
    rewritten: dict[str, datetime] = field(default_factory=dict)
    sizes: dict[str, set[int]] = field(default_factory=dict)
    looks: int = 0
    is_stopped: bool = False
    is_denied: bool = False

    def __post_init__(self) -> None:
        numbers = count(1)
        self.unique = lambda: f"m{next(numbers)}"
        super().__post_init__()
        self.table("lake.calm.stays")  # a lake is never without any table: the ledger's stand there
        self.sweeper = MemorySweeper(self.store, self.file_tables)
        self.departed: dict[str, tuple[DepartureState, datetime]] = {}
        self.returns: Counter[str] = Counter()

    @cached_property
    def walk(self) -> Walk:
        return Walk(self.store)

    def new_catalog(self, name: str) -> MemoryCatalog:
        return WatchedCatalog(self, name)

    def services(self, **changes: Any) -> RunContext:
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
        """Those that engines see as tables of theirs."""
        spaces = (("air",), ("sea",))
        return [table for table in self.registered() if table.name.namespace in spaces]

    def registered(self) -> list[Table]:
        """All, those that wait among the dropped ones too."""
        return [Table(self, name) for name in sorted(self.locations())]

    def line(self, location: str) -> set[str]:
        """A metadata file and those it comes from, as far as it tells."""
        log = self.walk.document(location)["metadata-log"]
        return {location, *(old["metadata-file"] for old in log)}

    def needed_places(self) -> set[str]:
        """What is needed, by whatever name, as it is called in the store."""
        return {self.store.real_path(path) for path in self.needs()}

    def needs(self) -> set[str]:
        """Every file that a table refers to, or one did that may be registered again."""
        found = [self.walk.of_table(location) for location in self.locations().values()]
        return set().union(*found, *(name.needs for name in self.gone))

    def owners(self, path: str) -> list[Table]:
        """The tables in whose folder a file lies, the innermost one."""
        tables = [table for table in self.registered() if path.startswith(f"{table.location}/")]
        deepest = max((len(table.location) for table in tables), default=0)
        return [table for table in tables if len(table.location) == deepest]

    def is_ours(self, path: str) -> bool:
        """Whether a file lies with tables that are all managed."""
        owners = self.owners(path)
        return bool(owners) and all(self.is_managed(table) for table in owners)

    def everywhere(self) -> set[str]:
        """All files, those outside every root too."""
        return self.paths() | self.paths(OUTSIDE)

    def is_below_a_root(self, path: str) -> bool:
        """Whether a person has said that what lies there may be deleted."""
        return path.startswith((f"{WAREHOUSE}/", *(f"{root}/" for root in self.storage_roots)))

    def is_managed(self, table: Table) -> bool:
        enabled = table.document["properties"].get(ENABLED, "true") == "true"
        return table.name.catalog == "lake" and enabled

    def window(self, table: Table) -> timedelta:
        return int(table.document["properties"].get(WINDOW, DEFAULT_WINDOW)) * DAY

    def is_held(self, table: Table) -> bool:
        listed = self.catalogs[table.name.catalog]._namespaces
        around = [listed.get(table.name.namespace, {}), table.document["properties"]]
        if is_dropped(table):  # the namespace that it was dropped from still holds it
            was = around[1].get("meltline.dropped.name", "air")
            around.append(listed.get(tuple(was.split(".")[:1]), {}))
        return any(properties.get(HOLD) for properties in around)

    # --- what is written again -------------------------------------------------------------------

    def write_again(self, path: str, content: bytes) -> None:
        """A new object comes under the path of another: only a sweep may take it, or its table."""
        sizes = self.sizes.setdefault(path, {self.store.size(path) or 0})
        sizes.add(len(content))
        self.store.write(path, content)
        self.contents[path] = content
        self.rewritten[path] = self.clock.now()
        self.leave(path)

    def leave(self, path: str) -> None:
        """A file lies there that no commit names; whose folder that is now may be gone later."""
        self.strays[path] = self.clock.now()
        if self.is_ours(path):
            self.ours.add(path)

    def copied_again(self, source: str, target: str) -> None:
        """What was written again has another size than commits say; so has its copy."""
        for path in [path for path in self.rewritten if path.startswith(f"{source}/")]:
            copy = f"{target}{path[len(source) :]}"
            if self.store.size(copy) is not None:
                self.sizes[copy] = set(self.sizes[path])
                self.rewritten[copy] = self.clock.now()
                self.leave(copy)

    def mend(self, path: str, content: bytes) -> None:
        """What a person puts back is newer than what departed meanwhile."""
        super().mend(path, content)
        self.write_again(path, content)

    def replaced(self) -> set[str]:
        """What lies under the paths of files that departed before it was written, and are over."""
        over = {p for p, (state, _) in self.departed.items() if state is DepartureState.DELETED}
        return {path for path in over & self.rewritten.keys() if self.store.size(path) is not None}

    def _check_rewritten(self, there: set[str], departed_at: Mapping[str, datetime]) -> None:
        """What was written again is there until it has departed itself."""
        lost = {
            path
            for path, at in self.rewritten.items()
            if path not in there | self.lost and departed_at.get(path, at - DAY) < at
        }
        assert not lost, f"I-1: new objects deleted under old paths: {sorted(lost)}"

    # --- looking -------------------------------------------------------------------------------

    def is_committing(self) -> bool:
        """Whether a run has checked a table that it has not committed yet."""
        begun = {plan.table: plan for plan in _applying(self, PlanKind.EXPIRE)}
        standing = {table.name: table for table in self.registered()}
        return any(
            set(plan.snapshots) & set(table.snapshots) or set(plan.refs) & table.refs.keys()
            for name, plan in begun.items()
            if (table := standing.get(name))
        )

    def look(self) -> None:
        """An observation of ours, and what it could see."""
        observe(self.services())
        self.looked()

    def looked(self) -> None:
        for catalog in self.catalogs.values():
            if catalog.unlistable:
                continue
            for name, location in catalog._tables.items():
                table, needs = Table(self, name), self.walk.of_table(location)
                if not self.can_be_read(table):
                    self.glimpsed |= needs
                    continue
                self.read.setdefault((name, place_of(table)), set()).update(needs)
                self.observed[name] = (location, needs)
                # Where a table is seen under its name again, that is its state, be it an older
                # one: the rest it let go of, as by an expiration.
                here = (name, place_of(table))
                self.gone = [gone for gone in self.gone if gone.name != here]
                self.seen |= needs
        self.sighted()

    def sighted(self) -> None:
        """An observation has stored what each table that can be read has on a branch."""
        for table in self.registered():
            if not self.catalogs[table.name.catalog].unlistable and self.can_be_read(table):
                story = self.stories.setdefault(table.name, Story())
                story.observed(table.document, self.clock.now())

    def can_be_read(self, table: Table) -> bool:
        """Whether all of it can be read, now or when it was last looked at."""
        before = self.seen if is_dropped(table) else self.read.get((table.name, place_of(table)))
        return not self.walk.of_table(table.metadata_location) & self.spoilt - (before or set())

    def told(self) -> None:
        """Notes what has happened to main's head of every table."""
        for name, location in self.locations().items():
            story = self.stories.setdefault(name, Story())
            story.happened(self.walk.document(location), self.clock.now())

    def drop(self, table: Table) -> None:
        """An engine drops a table; its retention counts from now on, at least."""
        self.will_drop(table)
        location, needs = self.observed.pop(table.name, ("", set()))
        there = needs & self.walk.of_table(table.metadata_location)
        name = (table.name, place_of(table))
        gone = Gone(name, location, there, f"{table.location}/", self.is_held(table))
        self.unknown |= set() if location else {gone.folder}
        table.drop()
        self.gone.append(gone)
        self.follow_the_gone()

    def came(self, table: Table) -> None:
        """Notes a table in a new state; a dropped one may be read and let go within a run."""
        self.follow_the_gone()
        self.note_needs()
        if is_dropped(table):
            needs = self.walk.of_table(table.metadata_location)
            unread = needs & self.spoilt - self.seen
            self.seen |= {table.metadata_location} if unread else needs

    def will_drop(self, table: Table) -> None:
        """Notes how long a table that is about to be dropped can be brought back."""
        self.stories.pop(table.name)
        until = self.clock.moment + self.window(table)
        key = (place_of(table), table.metadata_location)
        twins = [self._drop_of(other) for other in self.registered() if is_dropped(other)]
        earlier = self.restorable.get(key, until)
        self.restorable[key] = min(until, earlier) if key in twins else until

    def _drop_of(self, table: Table) -> tuple[Place, str] | None:
        """Which drop it was that a table which waits among the dropped ones comes from."""
        log = [old["metadata-file"] for old in table.document["metadata-log"]]
        line = ((place_of(table), at) for at in reversed([*log, table.metadata_location]))
        return next((key for key in line if key in self.restorable), None)

    def restorable_until(self, table: Table) -> datetime | None:
        """Until when a dropped table can be brought back; None for what a share has let go of."""
        if key := self._drop_of(table):
            return self.restorable[key]
        place = place_of(table)  # a part of its log is cut
        return min((at for (its, _), at in self.restorable.items() if its == place), default=None)

    def follow_the_gone(self) -> None:
        """Where another name goes on from one that is gone, that one needs its files from now on.

        Among the dropped ones, under a new name, or under a second one. A name that was never
        observed left nothing that anybody knows of.
        """
        lines = set[str]().union(*(self.line(at) for at in self.locations().values()))
        self.gone = [gone for gone in self.gone if gone.location and gone.location not in lines]
        for table in self.registered():
            if is_dropped(table) and self.is_managed(table):
                self.let_go[place_of(table)] = f"{table.location}/"

    # --- the invariants ------------------------------------------------------------------------

    def check(self) -> None:
        self.looks += 1
        self.told()
        self.follow_the_gone()
        needs, there = self.needs(), self.everywhere()
        missing = {path for path in needs if self.store.real_path(path) not in there}
        assert not missing, f"I-1: needed and gone: {sorted(missing)}"
        self._check_departures(needs)
        for path in there:
            content = self.store.read(path)
            before = self.contents.setdefault(path, content)
            assert content == before or path in self.spoilt, f"I-5: {path} has changed"
        self.note_needs()

    def note_needs(self) -> None:
        needs = self.needs()
        seen = needs.union(self.strays)
        self.ours |= {path for path in seen - self.ours if self.is_ours(path)}
        self.last_needed.update(dict.fromkeys(needs, self.clock.now()))

    def _check_departures(self, needs: set[str]) -> None:
        """I-2: a recorded stage moves right, or somebody logged why it did not; I-4: no reset."""
        told = MemoryLedgerReader(self.file_tables).departures()  # what was set aside among it
        now = {d.path: (d.state, d.due_at) for d in told}
        there = self.everywhere()
        self._check_rewritten(there, {d.path: d.departed_at for d in told})
        logged_returns = Counter(
            path
            for entry in self.control.audit.entries()
            if entry.action == "cancel departure"
            for path in entry.detail.splitlines()
        )
        back = logged_returns - self.returns
        for path, (state, due) in now.items():
            was, was_due = self.departed.get(path, (None, due))
            if state is was is DepartureState.FAILSAFE:
                assert due == was_due or back[path], f"I-4: {path}: due_at moved"
            elif was in RANKS and RANKS.get(state, 0) < RANKS[was]:
                again = path in self.last_needed or path in self.rewritten
                is_another = was is DepartureState.DELETED and again
                assert back[path] or is_another, f"I-2: {path}: {was} to {state}"
            if state is DepartureState.DELETED:
                assert path not in needs or self.store.size(path) is not None
        assert self.departed.keys() <= now.keys(), "I-2: a record was lost"
        self.departed, self.returns = now, logged_returns

    def check_accounts(self) -> None:
        """I-2, I-3: each byte under a managed prefix stands in one stage, and none is made up."""
        self.check()
        standing = standing_now(self.services())
        stages = {f.path: f for f in standing.files.values() if f.stage is not Stage.DELETED}
        disk = {path: len(self.contents[path]) for path in self.everywhere()}
        unsure = (self.glimpsed - self.seen) | (self.lost - disk.keys())
        known = self.seen - (self.replaced() - self.needs())
        held = {p: b for p, b in disk.items() if p in known and self.is_ours(p)}
        counted = {p: f.bytes for p, f in stages.items() if self.is_ours(p) and p not in unsure}
        for path in held.keys() & counted.keys():
            held[path] = counted[path] if counted[path] in self.sizes.get(path, ()) else held[path]
        assert counted == held, f"I-3: {_difference(counted, held)}"
        self._check_totals(standing)
        needs = self.needs()
        waiting = {path for path, file in stages.items() if file.stage is Stage.FAILSAFE}
        assert not waiting & needs, f"I-2: needed and in failsafe: {sorted(waiting & needs)}"

    def _check_totals(self, standing: Standing) -> None:
        """I-3: what is summed over the whole index is what single files come to."""
        totals = totals_now(self.services())
        summed = {key: size for key, size in totals.holdings.owned.items() if size}
        single = Counter[tuple[str, Stage]]()
        for file in standing.files.values():
            single[file.owner, file.stage] += file.bytes
        counted = {key: size for key, size in single.items() if size}
        assert summed == counted, f"I-3: the sums: {_difference(summed, counted)}"
        foreign = Counter[str]()
        for file in standing.foreign.values():
            foreign[min(file.tables)] += file.bytes
        assert totals.holdings.foreign == foreign, "I-3: foreign files"
        rows = {row.table_uuid: row for row in storage_rows(totals)}
        assert all(
            getattr(rows[uuid], f"{stage}_bytes") == size
            for (uuid, stage), size in summed.items()
            if uuid in rows
        )

    def check_all_is_gone(self) -> None:
        """On time: only what something needs, or what no observation ever saw, is left."""
        left_over = {name: ids for name, ids in self.needless().items() if ids}
        assert not left_over, f"never expired: {left_over}"
        if any(name.held for name in self.gone):
            return  # a hold that nobody can take off any more keeps its whole group
        left = {path for path in self.everywhere() & self.seen if self._should_go(path)}
        left -= self.needed_places() | self.replaced() | self.beyond_proof()
        assert not left, f"never purged: {sorted(left)}"

    def beyond_proof(self) -> set[str]:
        """What may stay because nobody could say that its copy is whole."""
        return set()

    def needless(self) -> Mapping[TableName, set[int]]:
        """Snapshots of managed tables that go when nothing happens for longer than any window."""
        managed = [table for table in self.registered() if self.is_managed(table)]
        return {table.name: set(table.snapshots) - self._still_kept(table) for table in managed}

    def check_sweeps(self) -> None:
        """On time: two sweeps a week apart take what lies with managed tables and is nobody's."""
        if any(name.held for name in self.gone) or self.glimpsed - self.seen:
            return
        for days in (4, 8, 8, 8):
            self.clock.moment += days * DAY
            self.sweep()
            self.run()
            self.check()
        needs, there = self.needs() | self.needed_places(), self.everywhere()
        left = {path for path in self.strays if path in there and self.is_ours(path)} - needs
        left -= {path for path in left if self._lay_with_dropped_tables(path)}
        assert not left, f"never swept: {sorted(left)}"

    def _lay_with_dropped_tables(self, path: str) -> bool:
        """Where only those lay nothing is swept: whose it is nobody can say any more."""
        folders = {*self.let_go.values(), *self.unknown}
        dropped = (folder for folder in folders if path.startswith(folder))
        standing = (f"{table.location}/" for table in self.owners(path))
        deeper = max(map(len, dropped), default=0) > max(map(len, standing), default=0)
        return deeper or path.startswith(tuple(gone.folder for gone in self.gone))

    def _should_go(self, path: str) -> bool:
        """Whether a file is Meltline's to delete once nobody needs it."""
        if path.startswith(tuple(name.folder for name in self.gone)):
            return False  # of a table that may be registered again
        if not self.is_below_a_root(path):
            return False
        ended = tuple(self.let_go.values())
        return self.is_ours(path) or (path.startswith(ended) and not self.owners(path))

    def _still_kept(self, table: Table) -> set[int]:
        """What a table keeps when nothing has happened to it for longer than any window."""
        document, long_ago = table.document, datetime.max.replace(tzinfo=UTC)
        if is_dropped(table):
            return promised_of_dropped(document, long_ago)
        # Where a second name's branch holds a snapshot, nobody can tell since when it is needless.
        twins = [t.document for t in self.registered() if place_of(t) == place_of(table)]
        kept = set[int]().union(*(on_branches(d) for d in twins if d != document))
        kept |= promised(document, Story(), long_ago, timedelta(0)).keys()
        return kept | logged(document, long_ago)

    # --- the chain -----------------------------------------------------------------------------

    def run(self, run_id: str = "", as_of: datetime | None = None, **more: Any) -> Summary:
        """A whole run; what it sees before and after, an outsider may count as observed.

        What a run commits at its end, the next look sees.
        """
        self.looked()
        before = self.last_commits()
        summary = super().run(run_id, as_of, **more)
        if self.last_commits() != before:
            observe(self.services())
        self.looked()
        self.check_refusals()
        return summary

    def check_refusals(self) -> None:
        """A plan that is refused again is one plan; our commits change what no ref shows."""
        refused = self.control.plans.find(states=[PlanState.REFUSED])
        contents = [(plan.kind, plan.table, plan.table_uuid, plan.digest) for plan in refused]
        assert len(set(contents)) == len(contents), "I-7: a refused plan is stored twice"
        changed = [one.message for one in self.control.incidents.all() if one.kind == HEAD_CHANGED]
        assert not changed, f"a commit of ours changed a ref: {changed}"

    def sweep(self) -> Summary:
        """A sweep of all tables; what it finds and lets depart is known from then on."""
        services = SweepServices(**vars(self.services()), sweeper=self.sweeper)
        summary = run_stage(SWEEP, services, self.request())
        self.looked()
        self.seen |= set(self.waiting())
        return summary

    def last_commits(self) -> int:
        """How often runs have lifted a guard, and shares were updated."""
        return sum(e.action in ("lift guard", "share update") for e in self.control.audit.entries())

    def check_nothing_is_missing(self) -> None:
        """Checked after every step, and against more than the living tables."""

    def evidence_of_work(self) -> Any:
        """All that may not change when there is nothing to do (I-7)."""
        paths = frozenset(self.paths())
        return (
            self.locations(),
            paths,
            dict(self.file_tables.commits),
            len(self.control.plans.find()),
        )


def place_of(table: Table) -> Place:
    """Which table it is, under whatever name."""
    return table.uuid, table.location


def is_dropped(table: Table) -> bool:
    """Whether it waits among the dropped ones."""
    return table.name.namespace == (DROPPED_NAMESPACE,)


def _difference(one: Mapping[Key, int], other: Mapping[Key, int]) -> str:
    keys = [key for key in one.keys() | other.keys() if one.get(key) != other.get(key)]
    return "; ".join(f"{key}: {one.get(key)} and {other.get(key)}" for key in sorted(keys)[:5])


class WatchedCatalog(MemoryCatalog):
    """Tells the lake when a table comes under a name, and under which one."""

    def __init__(self, lake: WatchedLake, name: str) -> None:
        super().__init__(
            name, lake.store, observe_only=name != "lake", clock=lake.clock, new_id=lake.unique
        )
        self._lake = lake

    def register(
        self, name: TableName, metadata_location: str, edit: TableEdit | None = None
    ) -> None:
        """Meltline keeps what engines have dropped, and may let it go again in the same run."""
        super().register(name, metadata_location, edit)
        self._lake.came(Table(self._lake, name))

    def create(
        self, tables: Sequence[NewTable], namespaces: Namespaces | None = None
    ) -> Mapping[TableName, str]:
        """Clones, and the tables of shares."""
        at = super().create(tables, namespaces)
        for name in at:
            self._lake.came(Table(self._lake, name))
        return at

    def move(self, moves: Sequence[TableMove], **namespaces: Any) -> None:
        """A drop or an undrop by command, or tables of a share that show something else."""
        super().move(moves, **namespaces)
        for move in moves:
            self._lake.came(Table(self._lake, move.target))


@dataclass
class _WatchedCommitter:
    """Holds every expiration commit against what was promised, at that very moment (I-6)."""

    lake: WatchedLake
    committer: Committer

    def expire(
        self, table: TableName, base_location: str, snapshots: Sequence[int], refs: Sequence[str]
    ) -> CommitOutcome | None:
        assert not self.lake.is_stopped, f"about to expire {table} in spite of a stop"
        standing = Table(self.lake, table)
        if standing.metadata_location == base_location:
            self._check(standing, set(snapshots), set(refs))
        outcome = self.committer.expire(table, base_location, snapshots, refs)
        self.lake.came(standing)  # the same run may take the table's last name away
        return outcome

    def _check(self, table: Table, snapshots: set[int], refs: set[str]) -> None:
        lake = self.lake
        begun = _applying(lake, PlanKind.EXPIRE, table.name)
        these = [p for p in begun if set(p.snapshots) == snapshots and set(p.refs) == refs]
        plan = max(these, key=lambda plan: plan.created_at)  # an earlier one may have met a fault
        _check_gate(lake, plan)
        assert lake.is_managed(table) and not lake.is_held(table), f"{table.name} is not ours"
        told = self._promised(table, plan.as_of)
        broken = {id: told[id] for id in snapshots & told.keys()}
        assert not broken, f"I-6: {table.name}: about to expire what was promised: {broken}"
        _check_writers(table, snapshots, refs, plan.as_of)
        leases = lake.control.leases.active(lake.clock.now())
        leased = {lease.snapshot_id for lease in leases if lease.table_uuid == plan.table_uuid}
        assert not leased & snapshots, "about to expire what is leased"

    def _promised(self, table: Table, as_of: datetime) -> dict[int, str]:
        lake, document = self.lake, table.document
        if not is_dropped(table):
            return promised(document, lake.stories[table.name], as_of, lake.window(table))
        until = lake.restorable_until(table)
        if until is not None and as_of <= until:
            twins = [t for t in lake.registered() if is_dropped(t) and t.uuid == table.uuid]
            elsewhere = {id for t in twins if t.name != table.name for id in t.snapshots}
            last = set(table.snapshots) - elsewhere  # a twin can be brought back with the others
            return dict.fromkeys(last, "a dropped table that can be brought back")
        return dict.fromkeys(promised_of_dropped(document, as_of), "a tag on a dropped table")


def _check_writers(table: Table, snapshots: set[int], refs: set[str], as_of: datetime) -> None:
    """Each streaming writer that is not silent finds on its walk what it found before (I-6)."""
    if is_dropped(table):
        return  # nobody writes to it
    document = table.document
    since = as_of - int(document["properties"].get(WRITERS, "30d").removesuffix("d")) * DAY
    left = {
        "snapshots": [s for s in document["snapshots"] if s["snapshot-id"] not in snapshots],
        "refs": {name: ref for name, ref in document["refs"].items() if name not in refs},
    }
    after = answers(left, of=document)
    lost = {
        who: answer
        for who, answer in answers(document).items()
        if answer.at >= since and who[0] not in refs and after.get(who) != answer
    }
    assert not lost, f"I-6: {table.name}: about to cut writers off from their marks: {lost}"


@dataclass
class _WatchedDeleter:
    """Holds every delete against the walk, the calendar and the gate (I-1, I-4)."""

    lake: WatchedLake

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        lake, now, paths = self.lake, self.lake.clock.now(), [file.path for file in files]
        assert not lake.is_stopped, f"about to delete in spite of a stop: {paths}"
        assert not lake.is_denied, f"about to delete beside what nobody vouches for: {paths}"
        places = lake.needed_places()
        needed = sorted(path for path in paths if lake.store.real_path(path) in places)
        assert not needed, f"I-1: about to delete what is needed: {needed}"
        for path in paths:
            since = lake.last_needed.get(path)
            if since is None:
                since = lake.strays.get(path)
                assert since is not None, f"about to delete what is nobody's: {path}"
                since += SWEPT_FROM
            assert now - since >= FAILSAFE, f"I-4: {path} was needed {now - since} ago"
            assert path in lake.ours or lake.is_ours(path), f"{path} was never ours to delete"
        self._check_plan(set(paths))
        outside = {path for path in lake.everywhere() if not lake.is_below_a_root(path)}
        outcomes = lake.deleter.delete_checked(files)
        gone = outside - lake.everywhere()  # a person may take a root back after the gate
        assert not gone, f"deleted outside every root: {sorted(gone)}"
        return outcomes

    def _check_plan(self, paths: set[str]) -> None:
        for plan in _applying(self.lake, PlanKind.PURGE):
            if mine := paths & {file.path for file in _items(self.lake, plan)}:
                _check_gate(self.lake, plan)
                paths = paths - mine
        assert not paths, f"I-4: deletes without a plan: {sorted(paths)}"


def _applying(lake: Lake, kind: PlanKind, name: TableName | None = None) -> Iterator[Plan]:
    for plan in lake.control.plans.find(states=[PlanState.APPLYING]):
        if plan.kind is kind and name in (None, plan.table):
            yield plan


def _items(lake: Lake, plan: Plan) -> Sequence[PlannedFile]:
    return lake.files.items.of([plan.id])[plan.id]


def _check_gate(lake: Lake, plan: Plan) -> None:
    """I-4: a fresh, passed gate for exactly these items. The digest is made as the docs say."""
    lines = [f"{plan.table_uuid}\tsnapshot\t{id}\n" for id in plan.snapshots]
    lines += [f"{plan.table_uuid}\tref\t{ref}\n" for ref in plan.refs]
    lines += [f"{plan.table_uuid}\t{f.kind}\t{f.path}\n" for f in _items(lake, plan)]
    digest = hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
    result = lake.control.verdicts.newest([plan.id]).get(plan.id)
    assert result is not None and not result.failed and not result.error and result.evaluated > 0
    assert result.digest == plan.digest == f"sha256:{digest}", "I-4: the gate saw another plan"
    assert result.ran_at <= lake.clock.now() < result.valid_until, "I-4: the gate is too old"
