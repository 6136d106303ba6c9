"""Doctor's findings about the cold tier: causes that keep history from being archived.

`doctor` calls it. It only reads; `app/archive` does the copying.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from meltline.app.archive.archive_snapshots import pending_handoffs
from meltline.app.archive.cold_tables import ListedColdTables, plain_name
from meltline.app.archive.foreign_metadata import foreign_commits, last_of_ours
from meltline.app.catalog.metadata import metadata_of
from meltline.app.catalog.tables import ObservedTable, cold_policy_of
from meltline.app.safety.cold_owner import mark_of
from meltline.app.safety.findings import Finding
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.archive.archive import COLD_OF
from meltline.domain.chunks.sync import SYNC_OF
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import ObjectReader

_SHOWN = 3


def cold_findings(context: ReadContext, tables: Sequence[ObservedTable]) -> Iterable[Finding]:
    """Finds invalid policies, an unreadable cold tier, and pending handoffs."""
    wanting = [table for table in tables if table.managed and cold_policy_of(context, table).is_on]
    yield from _odd_values(context, tables)
    if context.cold is None:
        for table in wanting:
            yield Finding(
                "error",
                "cold_not_configured",
                str(table.state.name),
                "a policy wants its history in cold, and no cold tier is configured: none expires",
                "name a catalog with `cold:` in meltline.yaml, or set meltline.cold=none on it",
            )
        return
    yield from _tier_findings(context, context.cold, wanting)
    yield from _waiting(context, wanting)


def _tier_findings(
    context: ReadContext, tier: ColdTier, wanting: Sequence[ObservedTable]
) -> Iterator[Finding]:
    tables = ListedColdTables.read(context)
    try:
        states = tables.all()
    except MeltlineError as error:
        yield Finding("error", "cold_unreachable", error.object, _message(error), error.next)
        return
    for state in states:
        if isinstance(state, MeltlineError):
            yield Finding("error", "cold_unreadable", state.object, _message(state), state.next)
        elif SYNC_OF not in state.properties:  # copies of rows are their owner's to compact
            yield from _foreign(tier.store, state)
    uuids = {row.uuid for row in context.control.registrations.all()}
    yield from _of_others(tables, uuids, metadata_of(states))
    yield from _names_taken(wanting, metadata_of(states))


def _of_others(
    tables: ListedColdTables, uuids: Collection[str], states: Sequence[TableMetadata]
) -> Iterator[Finding]:
    """Cold tables that another installation writes, with the rows of a table of ours."""
    for state in states:
        mark = mark_of(state)
        uuid = state.properties.get(SYNC_OF) or state.properties.get(COLD_OF)
        if uuid in uuids and mark.stated and not tables.owner.owns(state):
            refusal = mark.refusal(str(state.name), tables.owner.installation.mark)
            yield Finding(
                "error",
                "cold_of_another_installation",
                refusal.object,
                _message(refusal),
                refusal.next,
            )


def _foreign(store: ObjectReader, state: TableMetadata) -> Iterator[Finding]:
    """Commits to the archive by others: only Meltline may write there (AR-34).

    A table to which chunks are replicated is not an archive: an engine writes it.
    """
    if SYNC_OF in state.properties:
        return
    commits = foreign_commits(store, state)
    if not commits:
        return
    ours = last_of_ours(store, state)
    back = f"point {state.name} at {ours} again" if ours else "bring the table back from a backup"
    yield Finding(
        "error",
        "cold_foreign_commit",
        str(state.name),
        "; ".join(commits[:_SHOWN]),
        f"find out who may write to the archive; to undo it, {back} in its catalog",
    )


def _message(error: MeltlineError) -> str:
    return f"{error.message}: {error.found}" if error.found else error.message


def _odd_values(context: ReadContext, tables: Sequence[ObservedTable]) -> Iterator[Finding]:
    for table in tables:
        for warning in cold_policy_of(context, table).warnings:
            yield Finding(
                "warning",
                "policy_out_of_range",
                str(table.state.name),
                warning,
                "set one of the values of docs/keep-history-cold.md",
            )


def _names_taken(
    wanting: Sequence[ObservedTable], states: Sequence[TableMetadata]
) -> Iterator[Finding]:
    """Cold tables with the name of a hot one, and the history of another table."""
    holders = {(s.name.namespace, s.name.name): s.properties.get(COLD_OF, "") for s in states}
    for table in wanting:
        name = plain_name(table)
        holder = holders.get((name.namespace, name.name))
        if holder is not None and holder != table.state.uuid:
            yield Finding(
                "info",
                "cold_name_taken",
                str(name),
                f"cold holds the history of another table under that name ({holder or 'unknown'})",
                "its own history is kept beside it, with its UUID in the name",
            )


def _waiting(context: ReadContext, wanting: Sequence[ObservedTable]) -> Iterator[Finding]:
    for pending in pending_handoffs(context, wanting, context.clock.now()):
        if pending.waiting:
            yield Finding(
                "info",
                "handoff_pending",
                str(pending.table.state.name),
                f"{pending.waiting} snapshots have no verified copy in cold yet; none expires",
                "the next run copies them; `meltline cold status` says how far it is",
            )
