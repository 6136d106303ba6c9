"""Which tables Meltline takes care of: attach and detach."""

from meltline.app.metadata import load_state
from meltline.app.services import Ledgers
from meltline.domain.errors import MeltlineError, TableNotFound
from meltline.domain.names import TableName
from meltline.domain.policy import ENABLED
from meltline.domain.table import TableState
from meltline.ports import AuditEntry, CatalogEntry

DETACH = "detach"
ATTACH = "attach"


def attach(ledgers: Ledgers, name: TableName) -> None:
    """Takes a table back into care.

    Raises:
        TableNotFound: The catalog has no such table.
        MetadataUnreadable: It cannot be read, so it cannot be cared for.
    """
    entry = _entry(ledgers, name)
    state = load_state(ledgers.store, name, entry.metadata_location)
    if ENABLED in state.properties:
        ledgers.catalogs[name.catalog].set_table_properties(name, {}, [ENABLED])
    _audit(ledgers, name, ATTACH)


def detach(ledgers: Ledgers, name: TableName) -> None:
    """Leaves a table alone from now on; its references count as long as it can be read.

    Of a table that cannot be read, and never was, it is also a person's word that it refers to
    no other table's files: purging, which such a table holds back everywhere, may go on.

    Raises:
        TableNotFound: The catalog has no such table.
    """
    entry = _entry(ledgers, name)
    try:
        state: TableState | None = load_state(ledgers.store, name, entry.metadata_location)
    except MeltlineError:
        state = None
    if state is not None and state.properties.get(ENABLED) != "false":
        ledgers.catalogs[name.catalog].set_table_properties(name, {ENABLED: "false"})
    _audit(ledgers, name, DETACH)


def vouched_for(ledgers: Ledgers) -> set[str]:
    """Tables that a person has detached, by name, and not attached again since."""
    detached: set[str] = set()
    for entry in ledgers.control.audit():
        if entry.action == DETACH:
            detached.add(entry.object)
        elif entry.action == ATTACH:
            detached.discard(entry.object)
    return detached


def _entry(ledgers: Ledgers, name: TableName) -> CatalogEntry:
    catalog = ledgers.catalogs.get(name.catalog)
    for entry in catalog.listing().entries if catalog else ():
        if entry.name == name:
            return entry
    raise TableNotFound(
        f"no table {name}",
        object=str(name),
        expected="a table of " + ", ".join(ledgers.catalogs),
        found=str(name),
        next="`meltline storage` lists the tables",
    )


def _audit(ledgers: Ledgers, name: TableName, action: str) -> None:
    now = ledgers.clock.now()
    ledgers.control.add_audit(AuditEntry(now, ledgers.who, action, str(name)))
