"""Preconditions of every destructive step: no stop, trusted clocks, the right ledger.

Steps check them at their start and before each batch. Each check raises its own error.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from meltline.app.safety.installations import require_alone
from meltline.app.services import ReadContext
from meltline.domain.clock import CLOCK_TOLERANCE
from meltline.domain.epochs import EPOCH, GENERATION, Epoch, newest_confirmed, standing
from meltline.domain.errors import ClockRefused, LedgerOutOfStep, SetupMissing, Stopped
from meltline.domain.units import format_instant
from meltline.ports import CatalogListing, ObjectRemover, ObjectWriter, SwitchLedger

_FIND_LEDGER = (
    "find the control ledger that belongs to this catalog, and make sure that no other "
    "installation uses the catalog. Only if that ledger is lost: `meltline init --adopt` restarts "
    "all failsafe, and approvals must be given anew"
)
_PROBE = ".meltline-clock"


def require_prepared(context: ReadContext) -> None:
    """Refuses to run before `meltline init`.

    Raises:
        SetupMissing: The control ledger is missing, or has another version.
    """
    if not context.control.database.is_prepared():
        raise SetupMissing(
            "the ledgers are not prepared",
            object=str(context.config.path),
            expected="a control ledger that `meltline init` has prepared",
            found="none, or one of another version",
            next="run `meltline init`",
        )


def require_go(ledger: SwitchLedger) -> None:
    """Refuses while `meltline stop` is in force. Checked before each commit and delete batch.

    Raises:
        Stopped: An operator has stopped everything.
    """
    switch = ledger.stopped()
    if switch is not None:
        raise Stopped(
            f"stopped by {switch.who} at {format_instant(switch.at)}: {switch.reason}",
            object="meltline stop",
            expected="no stop in force",
            found=switch.reason or "a stop without reason",
            next="`meltline go` when it is safe to go on",
        )


def require_generation(context: ReadContext, listing: CatalogListing | None = None) -> None:
    """Refuses if ledger, catalog and storage roots do not belong together (docs/safety.md).

    Raises:
        LedgerOutOfStep: The ledger was lost, is an old backup, or another installation manages the
            warehouse.
    """
    standing_epoch(context, listing)
    require_alone(context, listing)


def require_datable(context: ReadContext) -> None:
    """Refuses to observe if the observations would be dated wrongly or stored in a wrong ledger.

    Raises:
        LedgerOutOfStep: The ledger was lost, or is an old backup.
        ClockRefused: The clock is behind the ledger.
    """
    require_generation(context)
    require_not_behind(context)


def standing_epoch(context: ReadContext, listing: CatalogListing | None = None) -> Epoch | None:
    """Returns the catalog's epoch, which the ledger must know; None before the first one.

    An epoch that was set and not confirmed counts as set: the process died in between.

    Args:
        context: Has ledger and catalog.
        listing: An earlier listing of the hot catalog, if the caller has one. If it does not match,
            the catalog is listed again.

    Raises:
        LedgerOutOfStep: The ledger was lost, or is an old backup.
    """
    config = context.config
    since = newest_confirmed(context.control.epochs.since())
    anew = listing or context.catalogs[config.hot].listing()
    epochs = context.control.epochs.since(since)
    properties = anew.namespaces.get((config.ledger_namespace,), {})
    _require_same_generation(context, properties)
    stated = properties.get(EPOCH, "")
    epoch = standing(stated, since, epochs)
    if epoch is None and (stated or since):
        if listing is not None:
            return standing_epoch(context)  # an epoch may have begun since that listing
        raise LedgerOutOfStep(
            "the control ledger is older than the catalog, or another one: it does not know of "
            "decisions or runs that the catalog knows of",
            object=f"namespace {config.ledger_namespace}",
            expected=f"epoch {stated or 'none'} as the catalog has it",
            found=f"epoch {since} in the control ledger",
            next=_FIND_LEDGER,
        )
    return epoch


def _require_same_generation(context: ReadContext, properties: Mapping[str, str]) -> None:
    stated = properties.get(GENERATION)
    if stated != str(context.control.database.generation()):
        raise LedgerOutOfStep(
            "the control ledger and the catalog are of different generations",
            object=f"namespace {context.config.ledger_namespace}",
            expected=f"generation {stated or 'none'} as the catalog has it",
            found=f"generation {context.control.database.generation()} in the control ledger",
            next=_FIND_LEDGER,
        )


def require_clock(context: ReadContext, behind: timedelta = timedelta(0)) -> None:
    """Refuses a wrong clock: behind the ledger, or different from the store's or the database's.

    Args:
        context: Has the clocks.
        behind: The tolerance against the ledger.

    Raises:
        ClockRefused: A clock disagrees; the error says which, and by how much.
    """
    require_not_behind(context, behind)
    require_other_clocks(context)


def require_not_behind(context: ReadContext, behind: timedelta = CLOCK_TOLERANCE) -> None:
    """Refuses a clock behind the ledger: retention of what it records would end too early.

    Raises:
        ClockRefused: It is behind by more than the tolerance.
    """
    now, newest = context.clock.now(), context.control.database.newest_time()
    if newest is None or now >= newest - behind:
        return
    recorded = format_instant(newest)
    simulated = f"in a sandbox set MELTLINE_NOW to {recorded}, or later; else "
    raise ClockRefused(
        "this machine's clock disagrees with the ledger's newest entry",
        object="wall clock",
        expected=f"{recorded}, or later",
        found=format_instant(now),
        next=f"{simulated if context.config.sandbox else ''}"
        "set the clock right; if it is, and one was ahead before, say so: "
        f"`meltline clock disown {recorded} --reason TEXT`; nothing expires or is purged till then",
    )


def present(context: ReadContext) -> datetime:
    """Returns the current time, or the ledger's newest if later: failsafe starts from it."""
    now, newest = context.clock.now(), context.control.database.newest_time()
    return now if newest is None else max(now, newest)


def require_other_clocks(context: ReadContext) -> None:
    """Refuses a clock that differs from the store's or the database's. Raises ClockRefused."""
    if context.clock.simulated:
        return
    clocks = {"the database": context.control.database.now()}
    if (store_now := _store_now(context)) is not None:
        clocks["the object store"] = store_now
    for whose, moment in clocks.items():
        if abs(moment - context.clock.now()) > CLOCK_TOLERANCE:
            raise _refused(whose, format_instant(moment), format_instant(context.clock.now()))


def keeps_our_time(context: ReadContext) -> bool:
    """Returns whether the store's clock agrees with ours; a simulated one may differ by days."""
    store_now = _store_now(context)
    return store_now is not None and abs(store_now - context.clock.now()) <= CLOCK_TOLERANCE


def _store_now(context: ReadContext) -> datetime | None:
    """Returns the store's time, from an object written there; None without a warehouse location."""
    warehouse = context.config.catalogs[context.config.hot].warehouse
    return write_probe(context.writer, context.remover, warehouse)


def write_probe(writer: ObjectWriter, remover: ObjectRemover, warehouse: str) -> datetime | None:
    """Writes an object to a warehouse and deletes it again.

    Returns:
        The store's time of the write; None if the catalog alone knows the warehouse.

    Raises:
        StoreRefused: The object cannot be written.
    """
    if not warehouse:
        return None
    probe = f"{warehouse.rstrip('/')}/{_PROBE}"
    written_at = writer.write(probe, b"")
    remover.delete([probe])
    return written_at


def _refused(whose: str, expected: str, ours: str) -> ClockRefused:
    return ClockRefused(
        f"this machine's clock disagrees with {whose}",
        object="wall clock",
        expected=f"{expected}, within {CLOCK_TOLERANCE.total_seconds():.0f} s",
        found=ours,
        next="set the clock right; nothing expires and nothing is purged until then",
    )
