"""Init: prepares the ledgers, marks sandboxes, takes in tables, adopts a ledger without a past."""

from dataclasses import dataclass, replace
from uuid import uuid4

from meltline.app.cold_status import remember_copies
from meltline.app.permission import GENERATION
from meltline.app.recognised import take_up_all
from meltline.app.roots import proposed_roots
from meltline.app.services import Services
from meltline.domain.errors import LedgerOutOfStep, NotASandbox
from meltline.domain.files import DepartureState
from meltline.ports import AuditEntry

SANDBOX_MARK = ".meltline-sandbox"


@dataclass(frozen=True)
class Initialised:
    """What `meltline init` did.

    Attributes:
        storage_roots: Places of tables outside every root: a person may want to make them some.
    """

    generation: int
    adopted: bool
    sandbox: bool
    failsafe_restarted: int = 0
    storage_roots: tuple[str, ...] = ()


def init(services: Services, *, adopt: bool = False, sandbox: bool = False) -> Initialised:
    """Prepares both ledgers. Running it again changes nothing.

    Args:
        services: The ledgers and the catalogs.
        adopt: Accept a ledger whose generation is not the catalog's: every file in failsafe
            waits its whole period anew.
        sandbox: Mark an empty warehouse as a sandbox.

    Raises:
        NotASandbox: The warehouse is not empty, or the configuration does not say sandbox.
        LedgerOutOfStep: The generations differ and `adopt` was not given.
    """
    if sandbox:
        mark_sandbox(services)
    services.control.prepare()
    services.files.prepare()
    if services.prepare_cold is not None:
        services.prepare_cold()
        remember_copies(services)
    config = services.config
    hot = services.catalogs[config.hot]
    properties = hot.listing().namespaces.get((config.ledger_namespace,), {})
    stated, ours = properties.get(GENERATION), services.control.generation()
    if stated == str(ours) and ours > 0:
        roots = proposed_roots(services)
        return Initialised(ours, adopted=False, sandbox=sandbox, storage_roots=roots)
    if (stated is not None or ours > 0) and not adopt:
        raise LedgerOutOfStep(
            "the control ledger and the catalog are of different generations",
            object=f"namespace {config.ledger_namespace}",
            expected=f"generation {stated or 'none'} as the catalog has it",
            found=f"generation {ours} in the control ledger",
            next="point `control` at the right ledger, or run `meltline init --adopt`",
        )
    number = max(int(stated or 0), ours) + 1
    restarted = _restart_failsafe(services) if adopt else 0
    hot.set_namespace_properties((config.ledger_namespace,), {GENERATION: str(number)})
    services.control.set_generation(number)
    if adopt:
        take_up_all(services)
    services.control.add_audit(
        AuditEntry(services.clock.now(), services.who, "init", f"generation {number}")
    )
    roots = proposed_roots(services)
    return Initialised(number, adopt, sandbox, restarted, storage_roots=roots)


def mark_sandbox(services: Services) -> None:
    """Marks an empty warehouse; a filled one only a person marks, by hand.

    Raises:
        NotASandbox: It is not empty, or `sandbox: true` is missing.
    """
    config = services.config
    warehouse = config.catalogs[config.hot].warehouse.rstrip("/")
    mark = f"{warehouse}/{SANDBOX_MARK}"
    if services.store.size(mark) is not None:
        return
    first = next(iter(services.store.list(warehouse)), None)
    if not config.sandbox or first is not None:
        raise NotASandbox(
            "this warehouse cannot be marked as a sandbox",
            object=warehouse,
            expected="sandbox: true in the configuration, and an empty warehouse",
            found="sandbox: false" if not config.sandbox else f"it holds {first and first.path}",
            next=f"use an empty warehouse; or, if you are sure, write {SANDBOX_MARK} by hand",
        )
    services.store.write(mark, b"Simulated time is allowed here.\n")


def _restart_failsafe(services: Services) -> int:
    """Every waiting file waits its whole period anew: nobody knows what the gap has hidden."""
    now = services.clock.now()
    waiting = services.files.departures(frozenset({DepartureState.FAILSAFE}))
    anew = [
        replace(d, due_at=now + (d.due_at - d.departed_at), departed_at=now, recorded_at=now)
        for d in waiting
    ]
    services.files.record_departures({f"adopted-{uuid4()}": anew})
    return len(anew)
