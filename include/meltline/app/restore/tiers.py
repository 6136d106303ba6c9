"""Chooses the tier that answers for a past point: hot if it can, otherwise cold (AR-28).

`meltline query`, restores and prunes call it. Cold is read only on request, and answers only what
it can prove. If the table, or the whole hot warehouse, is gone, cold tables are found by name.
"""

from collections.abc import Callable, Sequence

from meltline.app.archive.cold_tables import ListedColdTables, require_cold
from meltline.app.catalog.metadata import load_document, load_state
from meltline.app.catalog.registrations import load_standing
from meltline.app.catalog.resolve import catalog_of
from meltline.app.services import ReadContext
from meltline.app.time_travel.query import Located, locate
from meltline.domain.archive.cold_past import ColdPast, Ended
from meltline.domain.errors import (
    MeltlineError,
    MetadataUnreadable,
    NameConflict,
    ObjectDropped,
    OutsideRetention,
    RefNotFound,
    SnapshotNotFound,
    StatementNotFound,
    StoreRefused,
    TableNotFound,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.time_travel.timetravel import Moment, Resolved, StatementPoint, TravelPoint
from meltline.ports import ControlLedger, StatementState

COLD = "cold"
"""The tier of archived history."""

NOT_IN_HOT = (
    OutsideRetention,
    RefNotFound,
    StatementNotFound,
    TableNotFound,
    ObjectDropped,
    MetadataUnreadable,
    StoreRefused,
)
"""Errors of hot for which cold may have the answer."""


def locate_anywhere(
    context: ReadContext, table: TableName, point: TravelPoint, *, allow_cold: bool
) -> Located:
    """Finds the state of a table's main at a point, in hot, otherwise in cold.

    Args:
        context: The ports.
        table: Its name; a cold table's own name means that one.
        point: The point.
        allow_cold: Whether cold may answer.

    Raises:
        OutsideRetention: Neither has it; the error lists the nearest intervals in cold.
        NameConflict: Cold has several tables with that name and an answer.
        CatalogReadOnly: A cold table was named, and cold may not answer.
        MeltlineError: Every error of `locate`.
    """
    is_cold = allow_cold and table.catalog == context.config.cold
    if is_cold and (own := _in_cold(context, table, point)):
        return own
    try:
        return locate(context, table, point)
    except NOT_IN_HOT as error:
        if context.cold is None:
            raise
        if isinstance(point.to, Moment) and point.to.at > context.clock.now():
            raise
        if not allow_cold:
            raise hinted(context, table, error) from error
        if answer := _in_cold(context, table, point):
            return answer
        raise


def hinted(context: ReadContext, table: TableName, error: MeltlineError) -> MeltlineError:
    """Adds a hint to the error if the ledger knows of copies: how to read them."""
    uuid = present_uuid(context, table)
    copies = context.control.archived.all([uuid] if uuid else None)
    if any(uuid or copy.table == table for copy in copies):
        error.next = f"{error.next}; some of its past is in cold: --allow-cold reads that"
    return error


def present_uuid(context: ReadContext, table: TableName) -> str:
    """The UUID of a table in hot; empty if there is none of this name, or it is unreadable."""
    try:
        location = catalog_of(context, table.catalog).location(table)
        return load_standing(context, table, location).uuid
    except (TableNotFound, MetadataUnreadable, StoreRefused):
        return ""


def cold_pasts(context: ReadContext, table: TableName) -> list[ColdPast]:
    """Reads the history that cold has of a table.

    If hot does not have the table, or cannot read it, everything archived under its name counts:
    several tables may have had that name, one after another.

    Raises:
        ColdMissing: No cold tier is configured.
        CatalogUnlistable: It cannot be listed.
        MetadataUnreadable: A table in it cannot be read.
        LedgerOutOfStep: It has the history of the table, from another installation.
    """
    tier = require_cold(context)
    if table.catalog == tier.catalog.name:
        return [ColdPast(table, load_state(tier.store, table, tier.catalog.location(table)))]
    cold = ListedColdTables.read(context)
    uuid = present_uuid(context, table)
    uuids = [uuid] if uuid else _handed_over(context.control, table)
    candidates = [cold.of(id, [table]) for id in uuids]
    states = {state.name: state for state in candidates if state is not None}
    own = TableName(tier.catalog.name, table.namespace, table.name)
    if not uuid and own in cold.entries and own not in states:
        states[own] = load_state(tier.store, own, cold.entries[own].metadata_location)
    return [ColdPast(table, state) for state in states.values()]


def _handed_over(control: ControlLedger, name: TableName) -> list[str]:
    """UUIDs of tables with archived snapshots under a name."""
    return sorted({c.table_uuid for c in control.archived.all() if c.table == name})


def only_answer(
    table: TableName, pasts: Sequence[ColdPast], ask: Callable[[ColdPast], Resolved]
) -> tuple[ColdPast, Resolved]:
    """Returns the one cold table that has an answer.

    Raises:
        NameConflict: Several have one.
        MeltlineError: None has; the error of the first one.
    """
    answers: list[tuple[ColdPast, Resolved]] = []
    refusals: list[MeltlineError] = []
    for past in pasts:
        try:
            answers.append((past, ask(past)))
        except (OutsideRetention, RefNotFound, StatementNotFound, SnapshotNotFound) as error:
            refusals.append(error)
    if not answers:
        raise refusals[0]
    if len(answers) > 1:
        names = ", ".join(str(past.state.name) for past, _ in answers)
        raise NameConflict(
            f"cold has several tables that were called {table}",
            object=str(table),
            expected="one that has an answer",
            found=names,
            next="name the one that is meant by its name in the cold catalog",
        )
    return answers[0]


def _in_cold(context: ReadContext, table: TableName, point: TravelPoint) -> Located | None:
    """The answer of cold; None if it has nothing of the table."""
    pasts = cold_pasts(context, table)
    if not pasts:
        return None
    statement = _ended(context, point)
    past, resolved = only_answer(
        table, pasts, lambda past_table: past_table.resolve(point, statement)
    )
    state = past.state
    store = require_cold(context).store
    document = load_document(store, state.name, state.metadata_location)[1]
    return Located(table, state, document, resolved, COLD)


def _ended(context: ReadContext, point: TravelPoint) -> Ended | None:
    """The start and end of a statement; None for another point, or if they are unknown."""
    if not isinstance(point.to, StatementPoint):
        return None
    statement = context.control.statements.get(point.to.id)
    if (
        statement is None
        or statement.completed_at is None
        or statement.state is not StatementState.COMPLETED
    ):
        return None
    return Ended(statement.id, statement.started_at, statement.completed_at)
