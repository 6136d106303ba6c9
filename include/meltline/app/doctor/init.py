"""Init: prepares the ledgers, marks sandboxes, and adopts a ledger that has lost its history.

`meltline init` and the demo call it. It creates the ledgers' tables and begins a generation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from meltline.app.archive.cold_status import remember_copies
from meltline.app.observe.known_registrations import take_up_all
from meltline.app.ownership.roots import proposed_roots
from meltline.app.safety.arming import SANDBOX_MARK, is_marked, sandbox_mark
from meltline.app.safety.audit import audit
from meltline.app.safety.epochs import STOPPED, adopt_epoch
from meltline.app.safety.installations import require_alone, require_own_roots
from meltline.app.safety.preconditions import require_generation, write_probe
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.sync import SyncState
from meltline.domain.epochs import EPOCH, GENERATION
from meltline.domain.errors import (
    CatalogReadOnly,
    LedgerOutOfStep,
    NotASandbox,
    SetupMissing,
    StoreRefused,
)
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import format_instant
from meltline.ports import Catalog, CatalogListing, ControlLedger, GuardKind, StopSwitch


@dataclass(frozen=True)
class Adopted:
    """Facts that an adopted ledger may have lost, and what was done about them.

    Attributes:
        unknown_since: The last write to this ledger: it does not know later decisions. None if it
            is empty.
        last_known: The newest decision or run that the catalog recorded.
        stop: The stop that is in force now because the catalog recorded it; empty for none.
        approvals: Number of approvals that are void: they must be given again.
        words: Tables that were detached: that must be repeated, too.
        chunk_policies: Policies that dropped chunks: likewise.
    """

    unknown_since: datetime | None
    last_known: str
    stop: str
    approvals: int
    words: tuple[TableName, ...]
    chunk_policies: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Formats these facts for the audit."""
        since = format_instant(self.unknown_since) if self.unknown_since else "never"
        words = ", ".join(map(str, self.words)) or "none"
        return (
            f"last written {since}; the catalog's last decision: {self.last_known or 'none'}; "
            f"stop in force: {self.stop or 'none'}; of no more worth: {self.approvals} approvals, "
            f"words for tables: {words}; policies of chunks: "
            f"{', '.join(self.chunk_policies) or 'none'}"
        )


@dataclass(frozen=True)
class Initialised:
    """Result of `meltline init`.

    Attributes:
        storage_roots: Locations of tables outside every root, as proposals for further roots.
        lost: Facts that an adopted ledger may have lost.
    """

    generation: int
    adopted: bool
    sandbox: bool
    failsafe_restarted: int = 0
    storage_roots: tuple[str, ...] = ()
    lost: Adopted | None = None


def init(context: RunContext, *, adopt: bool = False, sandbox: bool = False) -> Initialised:
    """Prepares both ledgers. Running it again changes nothing.

    Args:
        context: The ports.
        adopt: Accept a ledger that does not belong to the catalog or the storage roots: failsafe
            starts again for every file, and approvals and detached tables are void.
        sandbox: Mark an empty warehouse as a sandbox.

    Raises:
        NotASandbox: The warehouse is not empty, or the configuration does not say sandbox.
        LedgerOutOfStep: The ledger is not the catalog's, or another installation manages the
            warehouse, and `adopt` is false.
        CatalogReadOnly: The catalog's tables cannot be changed safely.
        CatalogUnlistable: A catalog, perhaps the archive's, does not answer.
        StoreRefused: A warehouse, perhaps the archive's, cannot be written to.
        SetupMissing: A prerequisite is missing, or a catalog acknowledged a create or change that
            is not visible.
    """
    require_grounds(context)
    require_unhindered(context.catalogs[context.config.hot])
    if sandbox:
        mark_sandbox(context)
    context.control.database.prepare()
    unknown_since = context.control.database.newest_time()
    if not adopt:
        require_own_roots(context)  # before any change in a catalog that belongs to another ledger
    tables = context.files.upkeep.prepare()
    if context.prepare_cold is not None:
        context.prepare_cold()
        remember_copies(context)
    config = context.config
    hot = context.catalogs[config.hot]
    listing = hot.listing()
    require_made(context, listing, tables)
    properties = listing.namespaces.get((config.ledger_namespace,), {})
    stated, ours = properties.get(GENERATION), context.control.database.generation()
    if _goes_on(context, stated, ours, adopt=adopt):
        roots = proposed_roots(context)
        return Initialised(ours, adopted=False, sandbox=sandbox, storage_roots=roots)
    number = max(int(stated or 0), ours) + 1
    restarted = _restart_failsafe(context) if adopt else 0
    lost = _forget_permissions(context, properties, unknown_since) if adopt else None
    adopt_epoch(context, properties, number)
    if adopt:
        take_up_all(context)
    detail = f"{restarted} files wait anew; {lost.sentence}" if lost else ""
    audit(context, "init", f"generation {number}", detail=detail)
    roots = proposed_roots(context)
    return Initialised(number, adopt, sandbox, restarted, storage_roots=roots, lost=lost)


def require_unhindered(catalog: Catalog) -> None:
    """Refuses a catalog that cannot be managed, before anything is created in it.

    Raises:
        CatalogReadOnly: Its tables cannot be changed safely.
    """
    if catalog.hindrance:
        raise CatalogReadOnly(
            f"catalog {catalog.name} cannot be managed",
            object=catalog.name,
            expected="a catalog whose tables can be changed safely",
            found=catalog.hindrance,
            next="mend that, and run `meltline init` again",
        )


def _goes_on(context: RunContext, stated: str | None, ours: int, *, adopt: bool) -> bool:
    """Whether the ledger exists and belongs to the catalog, so that no generation has to begin.

    Raises:
        LedgerOutOfStep: It does not, and `adopt` is false.
    """
    try:
        if stated is None and ours == 0:
            require_alone(context)
            return False
        require_generation(context)
    except LedgerOutOfStep:
        if not adopt:
            raise
        return False
    return True


def _forget_permissions(
    context: RunContext, properties: Mapping[str, str], unknown_since: datetime | None
) -> Adopted:
    """Restores restrictions that the catalog recorded; permissions have to be given again."""
    control = context.control
    if stated := properties.get(STOPPED, ""):
        stop = control.switch.stopped()
        control.switch.set(
            stop or StopSwitch(context.who, f"as the catalog has it: {stated}", context.clock.now())
        )
    control.switch.arm(None)
    words = tuple(word.table for word in control.decisions.vouched())
    for table in words:
        control.decisions.forget_vouched(table)
    for record in control.decisions.guards():
        for kind in (GuardKind.OVERRIDDEN, GuardKind.TRUSTED):
            control.decisions.forget_guard(record.table_uuid, kind)
    return Adopted(
        unknown_since,
        properties.get(EPOCH, ""),
        stated,
        control.verdicts.forget_approvals(),
        words,
        forget_chunk_words(control),
    )


def mark_sandbox(context: RunContext) -> None:
    """Marks an empty warehouse as a sandbox; only an operator may mark another one, by hand.

    Raises:
        NotASandbox: It is not empty, or `sandbox: true` is missing.
    """
    config = context.config
    if is_marked(config, context.store):
        return
    warehouse = config.catalogs[config.hot].warehouse.rstrip("/")
    first = next(iter(context.store.list(warehouse)), None)
    if not config.sandbox or first is not None:
        raise NotASandbox(
            "this warehouse cannot be marked as a sandbox",
            object=warehouse,
            expected="sandbox: true in the configuration, and an empty warehouse",
            found="sandbox: false" if not config.sandbox else f"it holds {first and first.path}",
            next=f"use an empty warehouse; or, if you are sure, write {SANDBOX_MARK} by hand",
        )
    context.writer.write(sandbox_mark(config), b"Simulated time is allowed here, and deletion.\n")


def _restart_failsafe(context: RunContext) -> int:
    """Restarts the failsafe of every waiting file: decisions of the lost period are unknown."""
    now = context.clock.now()
    waiting = context.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
    anew = [
        replace(d, due_at=now + (d.due_at - d.departed_at), departed_at=now, recorded_at=now)
        for d in waiting
        if d.is_on_its_way
    ]
    context.files.departures.record({f"adopted-{uuid4()}": anew})
    return len(anew)


_DETAIL = (
    "the ledger was adopted: it may not know of drops, so that nobody can tell which rows cold "
    "alone has until everything is copied and verified anew"
)


def forget_chunk_words(control: ControlLedger) -> tuple[str, ...]:
    """Stops every synced table until an operator decides, and removes policies that drop chunks.

    Cold itself records the rows that cold alone has (`meltline.sync-dropped`). This ledger's own
    records of a chunk are valid only if it has seen every event, which is not so any more.

    Returns:
        The policies to add again, as sentences.
    """
    for sync in control.syncs.all():
        waiting = replace(
            sync, state=SyncState.FAILED, reason=str(Deferral.DIVERGED), detail=_DETAIL
        )
        control.syncs.save(sync, waiting)
    names = {table.table_uuid: str(table.table) for table in control.chunks.tracked()}
    for uuid in names:
        chunks = [c for c in control.chunks.of(uuid).values() if c.cold_base and not c.was_dropped]
        control.chunks.move([(chunk, replace(chunk, cold_base=None)) for chunk in chunks])
    forgotten = []
    for policy in control.chunk_policies.all():
        if policy.drop_after and control.chunk_policies.remove(policy.table_uuid, policy.type):
            forgotten.append(
                f"{names.get(policy.table_uuid, policy.table_uuid)}: {policy.sentence}"
            )
    return tuple(forgotten)


def require_grounds(context: RunContext) -> None:
    """Creates what catalogs and warehouses need, if it may, and reports what is missing.

    Raises:
        CatalogUnlistable: A catalog does not answer.
        SetupMissing: A catalog has no warehouse or namespace for tables.
        StoreRefused: A warehouse cannot be written to.
    """
    if context.lay_foundations is not None:
        context.lay_foundations()
    hot = context.config.catalogs[context.config.hot].warehouse
    write_probe(context.writer, context.remover, hot)
    if context.cold is not None:
        try:
            write_probe(context.cold.writer, context.cold.remover, context.cold.warehouse)
        except StoreRefused as refused:
            raise type(refused)(
                f"the archive {context.config.cold} cannot be used: {refused.message}",
                object=refused.object,
                expected=refused.expected,
                found=refused.found,
                next=refused.next,
            ) from refused


def require_made(context: RunContext, listing: CatalogListing, tables: Sequence[str]) -> None:
    """Checks that the hot catalog shows the tables that Spark created in it.

    Args:
        context: The ports.
        listing: The catalog as our own client reads it.
        tables: The tables of the ledger.

    Raises:
        SetupMissing: It does not show them.
    """
    catalog, space = context.config.hot, (context.config.ledger_namespace,)
    missing = [name for name in tables if listing.of(TableName(catalog, space, name)) is None]
    if not tables or not missing:
        return
    where = f"namespace {'.'.join((catalog, *space))}"
    present = "no such namespace" if space not in listing.namespaces else f"it lacks {missing[0]}"
    raise SetupMissing(
        f"catalog {catalog} has not made what it answered yes to",
        object=where,
        expected=f"the ledger's {len(tables)} tables",
        found=f"{present}, {len(missing)} of them in all",
        next="see whether Spark and Meltline are told the same catalog (its address, warehouse and "
        "name), and look at the catalog's own log; then run `meltline init` again",
    )
