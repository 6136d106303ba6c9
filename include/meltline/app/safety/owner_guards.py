"""Owner guards: tables whose owners forbid deleting their files.

Every observed table is checked for them; clones set them, and `attach` overrides them.
`gc.enabled=false` is the format's only statement that others may need a table's files. Meltline
sets it too, on tables that share files, and records that in the control ledger. A setting without
such a record is the owner's: the table is only observed, unless an operator overrides it (decision
052). The same records have the tables whose manifests an operator trusts although their totals are
contradictory (decision 004).
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from meltline.app.safety.audit import audit
from meltline.app.safety.epochs import raise_epoch
from meltline.app.services import ReadContext
from meltline.domain.clock import Clock
from meltline.domain.clone.clones import GC, OWNER_GC, owner_guard
from meltline.domain.clone.shares import read_origin
from meltline.domain.errors import UsageInvalid
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.safe_text import quote
from meltline.ports import CONTRADICTORY, Decisions, GuardKind, GuardReader, GuardRecord


@dataclass(frozen=True)
class OwnerGuards:
    """The guards in the control ledger, by registration.

    Attributes:
        recorded: Registrations on which Meltline has set `gc.enabled=false`.
        overridden: Registrations whose owner's setting an operator has overridden.
    """

    recorded: Collection[str]
    overridden: Collection[str]

    @classmethod
    def read(cls, guards: GuardReader) -> "OwnerGuards":
        """Reads all records."""
        of_kind: dict[GuardKind, set[str]] = {kind: set() for kind in GuardKind}
        for record in guards.guards():
            of_kind[record.kind].add(record.table_uuid)
        return cls(of_kind[GuardKind.SET], of_kind[GuardKind.OVERRIDDEN])

    def of(self, state: TableMetadata) -> str:
        """Returns the property by which the owner forbids deletions; empty if none does."""
        setting = owner_guard(state.properties, recorded=state.uuid in self.recorded)
        return "" if setting == GC and state.uuid in self.overridden else setting

    def among(self, states: Iterable[TableMetadata]) -> frozenset[str]:
        """Returns the UUIDs of tables whose owner forbids deletions."""
        return frozenset(state.uuid for state in states if self.of(state))


def trusted_tables(guards: GuardReader, states: Iterable[TableMetadata] = ()) -> frozenset[str]:
    """Returns the UUIDs of tables whose manifests an operator trusts in spite of their totals.

    Args:
        guards: Has the records.
        states: Current tables. A share of a trusted table is trusted too, as long as all its lists
            are also that table's.
    """
    trusted = frozenset(r.table_uuid for r in guards.guards() if r.kind is GuardKind.TRUSTED)
    by_uuid = grouped(states if trusted else (), lambda state: state.uuid)
    lists = {uuid: set(chain.from_iterable(map(_lists, named))) for uuid, named in by_uuid.items()}
    origins = {uuid: read_origin(named[0].properties) for uuid, named in by_uuid.items()}
    return trusted.union(
        uuid
        for uuid, origin in origins.items()
        if origin and origin.uuid in trusted and lists[uuid] <= lists.get(origin.uuid, set())
    )


def _lists(state: TableMetadata) -> Iterator[tuple[str, ...]]:
    """Yields the reachable sets of a table, as they are written down."""
    return (snapshot.as_written for snapshot in state.snapshots.values())


@dataclass(frozen=True)
class GuardLog:
    """Records events of registrations' guards."""

    decisions: Decisions
    clock: Clock
    who: str

    @classmethod
    def of(cls, context: ReadContext) -> "GuardLog":
        """Returns the log of a command or run."""
        return cls(context.control.decisions, context.clock, context.who)

    def sets(self, table_uuid: str) -> None:
        """Records, before the commit, that Meltline sets the guard: the table shares files."""
        self.decisions.forget_guard(table_uuid, GuardKind.LIFTED)
        self.save(table_uuid, GuardKind.SET, "it shares files")

    def save(self, table_uuid: str, kind: GuardKind, reason: str) -> None:
        """Records any other event."""
        record = GuardRecord(table_uuid, kind, self.who, reason, self.clock.now())
        self.decisions.save_guard(record)


def trust(context: ReadContext, name: TableName, reason: str) -> None:
    """Ignores the totals of a table's snapshots; its manifests are still read twice.

    Args:
        context: Has the records.
        name: A table that a run has found contradictory.
        reason: Why its manifests are right.

    Raises:
        UsageInvalid: The reason is missing, or no run has found a contradiction.
        MeltlineError: The epoch cannot be raised.
    """
    found = [row for row in context.control.registrations.all() if row.name == name]
    doubted = [row for row in found if row.status == CONTRADICTORY]
    if not doubted or not reason.strip():
        raise UsageInvalid(
            f"the manifests of {name} cannot be trusted yet",
            object=str(name),
            expected="a table that contradicts itself, and --reason TEXT: why its rows are right",
            found="no reason" if doubted else "no contradiction that a run has met",
            next="read the table with its engine; `meltline doctor` says what contradicts what",
        )
    raise_epoch(context, "trust")
    for row in doubted:
        GuardLog.of(context).save(row.uuid, GuardKind.TRUSTED, reason.strip())
    audit(context, "trust", str(name), reason.strip(), "its totals count for nothing")


def override(context: ReadContext, state: TableMetadata, reason: str) -> None:
    """Overrides the owner's `gc.enabled=false` for one registration, so that its files are deleted.

    Raises:
        UsageInvalid: The reason is missing, or the owner forbids it to Meltline itself.
        MeltlineError: The epoch cannot be raised.
    """
    name = state.name
    if not reason.strip():
        raise UsageInvalid(
            f"overriding {GC}=false of {name} needs a reason",
            object=str(name),
            expected="--reason TEXT: why no other table needs its files",
            found="no reason",
            next="give the reason; `meltline detach` takes the override back",
        )
    setting = OwnerGuards.read(context.control.decisions).of(state)
    if not setting:
        raise UsageInvalid(
            f"the owner of {name} forbids no deletions",
            object=str(name),
            expected=f"a table whose owner has set {GC}=false",
            found="none, or one that is overridden already",
            next=f"`meltline attach {quote(name)}` without --despite-gc-disabled",
        )
    if setting == OWNER_GC:
        raise UsageInvalid(
            f"the owner of {name} forbids deletions by {OWNER_GC}=false",
            object=str(name),
            expected=f"a table without {OWNER_GC}",
            found=f"{OWNER_GC}=false",
            next=f"remove {OWNER_GC} from the table with an engine, if its owner agrees",
        )
    raise_epoch(context, "attach")
    GuardLog.of(context).save(state.uuid, GuardKind.OVERRIDDEN, reason)
    audit(context, "attach", str(name), reason, f"{GC}=false is overridden")
