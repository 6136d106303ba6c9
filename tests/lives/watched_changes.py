"""What Meltline does to a watched lake, held against what was promised at that very moment."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from meltline.adapters.catalogs.table_renames import Namespaces
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.iceberg.files import PlannedFile
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
from tests.doubles.catalog import MemoryCatalog
from tests.lake.lake import DAY, Lake, Table
from tests.lake.streaming import answers
from tests.lives.oracle import (
    promised,
    promised_of_dropped,
)

if TYPE_CHECKING:
    from tests.lives.watched_lake import WatchedLake

FAILSAFE = timedelta(days=7)
SWEPT_FROM = timedelta(days=3)  # the least age at which a file counts as left behind
WRITERS = "meltline.writer-keep"
Place = tuple[str, str]
"""A UUID and a folder: copies by rewritten paths share the first, a table's names both."""


def place_of(table: Table) -> Place:
    """Which table it is, under whatever name."""
    return table.uuid, table.location


def is_dropped(table: Table) -> bool:
    """Whether it waits among the dropped ones."""
    return table.name.namespace == (DROPPED_NAMESPACE,)


class WatchedCatalog(MemoryCatalog):
    """Tells the lake when a table comes under a name, and under which one."""

    def __init__(self, lake: "WatchedLake", name: str) -> None:
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

    def unregister(self, name: TableName, metadata_location: str) -> bool:
        """A clone that went wrong, or a dropped table whose time is up."""
        is_let_go = is_dropped(Table(self._lake, name))
        assert self._lake.is_armed or not is_let_go, f"about to let go {name}, unarmed"
        return super().unregister(name, metadata_location)

    def move(self, moves: Sequence[TableMove], **namespaces: Any) -> None:
        """A drop or an undrop by command, or tables of a share that show something else."""
        super().move(moves, **namespaces)
        for move in moves:
            self._lake.came(Table(self._lake, move.target))


@dataclass
class WatchedCommitter:
    """Holds every expiration commit against what was promised, at that very moment (I-6)."""

    lake: "WatchedLake"
    committer: Committer

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        table = plan.table
        assert not self.lake.is_stopped, f"about to expire {table} in spite of a stop"
        assert self.lake.is_armed, f"about to expire {table}, and nobody has armed its catalog"
        standing = Table(self.lake, table)
        if standing.metadata_location == base_location:
            self._check(standing, set(plan.snapshots), set(plan.refs))
        outcome = self.committer.expire(plan, base_location)
        self.lake.came(standing)  # the same run may take the table's last name away
        return outcome

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        return self.committer.confirm(plan)

    def withdraw(self, plan: Plan) -> bool:
        return self.committer.withdraw(plan)

    def _check(self, table: Table, snapshots: set[int], refs: set[str]) -> None:
        lake = self.lake
        begun = applying(lake, PlanKind.EXPIRE, table.name)
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
            window = max(lake.window(table), lake.account.reader_grace)
            return promised(document, lake.stories[table.name], as_of, window)
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
class WatchedDeleter:
    """Holds every delete against the walk, the calendar and the gate (I-1, I-4)."""

    lake: "WatchedLake"

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        lake, now, paths = self.lake, self.lake.clock.now(), [file.path for file in files]
        assert not lake.is_stopped, f"about to delete in spite of a stop: {paths}"
        assert lake.is_armed, f"about to delete, and nobody has armed the catalog: {paths}"
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
        for plan in applying(self.lake, PlanKind.PURGE):
            if mine := paths & {file.path for file in _items(self.lake, plan)}:
                _check_gate(self.lake, plan)
                paths = paths - mine
        assert not paths, f"I-4: deletes without a plan: {sorted(paths)}"


def applying(lake: Lake, kind: PlanKind, name: TableName | None = None) -> Iterator[Plan]:
    for plan in lake.control.plans.find(states=[PlanState.APPLYING]):
        if plan.kind is kind and name in (None, plan.table):
            yield plan


def expired_a_sharer(lake: Lake, run_id: str) -> bool:
    """Whether this run has expired something of a table that may have shared files.

    What the files' owner had let go of before departs with a plan of that one's own, which the
    next run makes.
    """
    sharers = {uuid for pair in lake.control.registrations.sharing() for uuid in pair}
    done = lake.control.plans.find(run_id=run_id, states=[PlanState.APPLIED])
    return any(plan.table_uuid in sharers for plan in done if plan.kind is PlanKind.EXPIRE)


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


def is_forbidden(properties: Mapping[str, str], *, overridden: bool = False) -> bool:
    """Whether a table's owner forbids deletions: what Meltline sets itself has a mark beside it."""
    if properties.get("meltline.owner-gc") == "false":
        return True
    ours = "meltline.gc-enabled-before" in properties or "meltline.share.of-uuid" in properties
    return properties.get("gc.enabled") == "false" and not (ours or overridden)


def named_by_managed_alone(lake: "WatchedLake") -> set[str]:
    """What managed tables' own commits named, wherever it lies, and nobody else did."""
    named = {True: set[str](), False: set(lake.foreign)}
    for table in lake.registered():
        named[lake.is_managed(table)] |= lake.walk.of_table(table.metadata_location)
    return named[True] - named[False]
