"""Adopts tables in cold from an installation that has ended, identified by an operator.

Only `meltline cold adopt` calls it. `meltline init --adopt` gives this ledger the hot catalog and
the storage roots. It does not change cold: the original of a copied lake may still be in use, and
share cold with the copy.
"""

from collections.abc import Mapping, Sequence

from meltline.app.archive.cold_status import remember_copies
from meltline.app.archive.cold_tables import ListedColdTables, require_cold
from meltline.app.safety.audit import audit
from meltline.app.safety.cold_owner import ColdOwner, mark_of
from meltline.app.safety.epochs import raise_epoch
from meltline.app.safety.preconditions import require_generation
from meltline.app.services import ReadContext
from meltline.domain.archive.archive import COLD_OF
from meltline.domain.archive.cold_owner import INSTALLATION
from meltline.domain.archive.seals import Edit, sealing
from meltline.domain.chunks.sync import SYNC_OF
from meltline.domain.errors import CommitConflict, MeltlineError, UsageInvalid
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata


def adopt_cold(context: ReadContext, installation: str, reason: str) -> list[TableName]:
    """Marks the tables in cold of another installation as this one's.

    The other installation is refused there from then on.

    Args:
        context: Has cold and the ledger.
        installation: The id of the other installation; `unknown` for tables without a mark. Without
            a mark, only tables that this ledger knows are adopted.
        reason: Why; it is recorded.

    Raises:
        UsageInvalid: The reason is missing, or cold has no table of the installation.
        CommitConflict: The other installation wrote one of the tables concurrently.
        LedgerOutOfStep: This ledger is not the hot catalog's.
        MeltlineError: A table in cold cannot be read, or a catalog cannot be changed.
    """
    require_generation(context)
    if not reason.strip():
        raise _unfit("taking over an installation needs a reason", "--reason TEXT", "no reason")
    foreign = _foreign(context)
    if installation not in foreign:
        ids = ", ".join(sorted(foreign)) or "tables of this installation alone"
        raise _unfit(f"cold has no table of installation {installation}", ids, installation)
    raise_epoch(context, f"cold adopt {installation}")
    marks, editor = ColdOwner.of(context).properties, require_cold(context).editor
    for state in foreign[installation]:
        edit = _marking(state, marks)
        editor.edit_table(state.name, sealing(edit) if COLD_OF in state.properties else edit)
    remember_copies(context)
    names = [state.name for state in foreign[installation]]
    audit(context, "cold adopt", installation, reason.strip(), ", ".join(map(str, names)))
    return names


def _foreign(context: ReadContext) -> Mapping[str, Sequence[TableMetadata]]:
    """Returns the tables of other installations, by the id of the installation."""
    tables, foreign = ListedColdTables.read(context), dict[str, list[TableMetadata]]()
    uuids = {row.uuid for row in context.control.registrations.all()}
    for state in tables.all():
        if isinstance(state, MeltlineError):
            raise state
        uuid = state.properties.get(SYNC_OF) or state.properties.get(COLD_OF)
        is_known = bool(mark_of(state).stated) or uuid in uuids
        if uuid and is_known and not tables.owner.owns(state):
            foreign.setdefault(mark_of(state).id, []).append(state)
    return foreign


def _marking(state: TableMetadata, marks: Mapping[str, str]) -> Edit:
    """Builds an edit that marks a table, unless the other installation has written it since."""

    def edit(document: MetadataEditor) -> None:
        if document.properties.get(INSTALLATION, "") != mark_of(state).stated:
            raise CommitConflict(
                f"the other installation has written {state.name} meanwhile",
                object=str(state.name),
                expected="an installation that has ended",
                found="a newer mark",
                next="stop it for good, and run the command again",
            )
        document.set_properties(marks)

    return edit


def _unfit(message: str, expected: str, found: str) -> UsageInvalid:
    return UsageInvalid(
        message,
        object="cold adopt",
        expected=expected,
        found=found,
        next="`meltline doctor` names the installations that have tables in cold",
    )
