"""A lake that is watched: every commit and delete of ours, and the whole of it after every step.

What is checked are the invariants I-1 to I-7, each against `tests.lives.oracle`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count
from typing import Any

from meltline.app.observe.observe import observe
from meltline.app.observe.ref_check import KIND as HEAD_CHANGED
from meltline.app.run.lifecycle import run_step
from meltline.app.run.steps import SWEEP
from meltline.app.run.summary import Summary
from meltline.app.services import RunContext, SweepServices
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.drop.drops import read_drop
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.names import TableName
from tests.doubles.catalog import MemoryCatalog
from tests.doubles.files import MemoryLedgerReader
from tests.doubles.sweeper import MemorySweeper
from tests.lake.lake import DAY, OUTSIDE, WAREHOUSE, Lake, Table
from tests.lives.oracle import Story, Walk, logged, on_branches, promised, promised_of_dropped
from tests.lives.watched_changes import (
    Place,
    WatchedCatalog,
    WatchedCommitter,
    WatchedDeleter,
    applying,
    is_dropped,
    is_forbidden,
    named_by_managed_alone,
    place_of,
)

DEFAULT_WINDOW = 7
HOLD, ENABLED = "meltline.hold", "meltline.enabled"
WINDOW = "meltline.retention-days"
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
        ours: Files that lay with managed tables alone, or that these alone named, while needed.
        last_needed: When each file was last referred to by anything.
        contents: What each file held when it was first there; forgotten once it has gone.
        strays: Files that writers left without committing them, and when.
        rewritten: Paths under which a new object was put, and when.
        sizes: What the objects under such a path have measured, the first one too.
        looks: How often all that anything needs was held against what is there.
        is_stopped: Whether a person has stopped everything, and not said go since.
        is_denied: Whether somebody took back a word for a table that nobody can read.
        foreign: Files that others need of whom no catalog tells.
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
    foreign: set[str] = field(default_factory=set)

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
            "committer": WatchedCommitter(self, built.committer),
            "deleter": WatchedDeleter(self),
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
        return self.foreign.union(*found, *(name.needs for name in self.gone))

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
        told, said = table.properties, table.uuid in self.overridden
        enabled = told.get(ENABLED, "true") == "true" and not is_forbidden(told, overridden=said)
        return table.name.catalog == "lake" and enabled

    def window(self, table: Table) -> timedelta:
        return int(table.document["properties"].get(WINDOW, DEFAULT_WINDOW)) * DAY

    def is_held(self, table: Table) -> bool:
        listed = self.catalogs[table.name.catalog]._namespaces
        around = [listed.get(table.name.namespace, {}), table.properties]
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
        begun = {plan.table: plan for plan in applying(self, PlanKind.EXPIRE)}
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
            if catalog.unlistable or catalog.name in self.unlisted:
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
        window = self.window(table)
        # With none it cannot be brought back at all, be it at that very instant.
        until = self.clock.moment + (window or -datetime.resolution)
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
        contents = {path: self.store.read(path) for path in there}
        for path, content in contents.items():
            before = self.contents.get(path, content)
            assert content == before or path in self.spoilt, f"I-5: {path} has changed"
        self.contents = {path: self.contents.get(path, now) for path, now in contents.items()}
        self.note_needs()

    def note_needs(self) -> None:
        needs = self.needs()
        seen = needs.union(self.strays)
        here = {path for path in seen - self.ours if self.is_ours(path)}
        self.ours |= here | named_by_managed_alone(self)
        self.last_needed.update(dict.fromkeys(needs, self.clock.now()))

    def _check_departures(self, needs: set[str]) -> None:
        """I-2: a recorded stage moves right, or somebody logged why it did not; I-4: no reset."""
        told = MemoryLedgerReader(self.file_tables).departures()  # what was set aside among it
        now = {d.path: (d.state, d.due_at) for d in told}
        there = self.everywhere()
        self._check_rewritten(there, {d.path: d.departed_at for d in told})
        logged_returns = Counter(
            str(entry.at) if line.startswith("and ") else line  # a long list is cut
            for entry in self.control.audit.entries()
            if entry.action == "cancel departure"
            for line in entry.detail.splitlines()
        )
        new = logged_returns - self.returns
        back = {d.path for d in told if new[d.path] or new[str(d.recorded_at)]}
        for path, (state, due) in now.items():
            was, was_due = self.departed.get(path, (None, due))
            if state is was is DepartureState.FAILSAFE:
                moves = due == was_due or path in back or path in self.rewritten  # a sweep's
                assert moves, f"I-4: {path}: due_at moved"
            elif was in RANKS and RANKS.get(state, 0) < RANKS[was]:
                again = path in self.last_needed or path in self.rewritten
                is_another = was is DepartureState.DELETED and again
                assert path in back or is_another, f"I-2: {path}: {was} to {state}"
            if state is DepartureState.DELETED:
                assert path not in needs or self.store.size(path) is not None
        assert self.departed.keys() <= now.keys(), "I-2: a record was lost"
        self.departed, self.returns = now, logged_returns

    def check_all_is_gone(self) -> None:
        """On time: only what something needs, or what no observation ever saw, is left."""
        left_over = {name: ids for name, ids in self.needless().items() if ids}
        assert not left_over, f"never expired: {left_over}"
        if any(name.held for name in self.gone):
            return  # a hold that nobody can take off any more keeps its whole group
        left = {path for path in self.everywhere() & self.seen if self._should_go(path)}
        left -= self.needed_places() | self.replaced() | self.beyond_proof()
        left -= {d.path for d in MemoryLedgerReader(self.file_tables).departures() if d.was_left}
        assert not left, f"never purged: {sorted(left)}"

    def beyond_proof(self) -> set[str]:
        """What may stay because nobody could say that its copy is whole."""
        return set()

    def needless(self) -> Mapping[TableName, set[int]]:
        """Snapshots of managed tables that go when nothing happens for longer than any window."""
        managed = [table for table in self.registered() if self.is_managed(table)]
        return {table.name: set(table.snapshots) - self._still_kept(table) for table in managed}

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
            drop = read_drop(table.name.catalog, document["properties"])
            if drop and not drop.is_over(self.clock.moment):
                return set(table.snapshots)  # a clock that was ahead dates one; a person was told
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
        summary = run_step(SWEEP, services, self.request())
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
