"""Names that a table has left, as the planner counts them: the gate reads their metadata too.

A table that was renamed goes on under its new name. A second registration that had commits of its
own does not, nor does a table that another tool dropped: either may be registered again, so what
its last metadata refers to stays, and a hold that lies on it holds.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from meltline.app.catalog.dropped import let_go_tables
from meltline.app.catalog.metadata import load_states
from meltline.app.catalog.registrations import as_registered
from meltline.app.catalog.tables import ObservedTable, observed_table
from meltline.app.services import RunContext
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.errors import MeltlineError, MetadataMissing
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogEntry, CatalogListing, KnownTable

_UNLISTED = CatalogListing((), {})


@dataclass(frozen=True)
class LeftBehind:
    """What is known of names that tables have left, as far as it bears on tables that stand.

    Attributes:
        tables: Their last states, where no present name leads on from them.
        fully_read: UUIDs of tables that stand nowhere and of which every last state could be read.
        unclear: Why it cannot be told what a name referred to, by UUID.
    """

    tables: tuple[ObservedTable, ...]
    fully_read: frozenset[str]
    unclear: Mapping[str, str]


def left_behind(
    context: RunContext,
    readable: Sequence[TableMetadata],
    listings: Mapping[str, CatalogListing],
    groups: Groups,
) -> LeftBehind:
    """Reads again what tables referred to under the names they have left.

    Of tables that share files with no other, and left in full, nothing is read: nothing of theirs
    is planned. Where metadata is missing, the index alone tells what it referred to.

    Args:
        context: The ports.
        readable: The tables that stand and can be read.
        listings: What each catalog holds; none for one that could not be listed.
        groups: Which tables share files.
    """
    standing = {state.uuid for state in readable}
    known_rows = context.control.registrations.all()
    let_go = let_go_tables(known_rows)
    left_rows = [
        row for row in known_rows if row.status == "gone" or row.name.catalog not in listings
    ]
    rows = [
        row for row in left_rows if row.uuid in standing | let_go.keys() or _shares(groups, row)
    ]
    ended = [let_go[uuid] for uuid in sorted({row.uuid for row in rows} & let_go.keys())]
    loaded = load_states(context.store, [_pointer(row) for row in (*rows, *ended)])
    ends = [as_registered(loaded[_pointer(row)], row) for row in ended]
    after = [*readable, *(state for state in ends if isinstance(state, TableMetadata))]
    answers = [(row, as_registered(loaded[_pointer(row)], row)) for row in rows]
    last = {
        state.metadata_location: state
        for _, state in answers
        if isinstance(state, TableMetadata) and not any(later.continues(state) for later in after)
    }
    return LeftBehind(
        tables=tuple(
            observed_table(context, state, listings.get(state.name.catalog, _UNLISTED))
            for state in last.values()
        ),
        fully_read=_fully_read(answers, standing),
        unclear={
            row.uuid: f"{row.name} ({row.status}): {answer.message}"
            for row, answer in answers
            if isinstance(answer, MeltlineError) and not isinstance(answer, MetadataMissing)
        },
    )


def _pointer(row: KnownTable) -> CatalogEntry:
    return CatalogEntry(row.name, row.metadata_location)


def _shares(groups: Groups, row: KnownTable) -> bool:
    return len(groups.members(row.uuid)) > 1


def _fully_read(
    answers: Sequence[tuple[KnownTable, TableMetadata | MeltlineError]], standing: Collection[str]
) -> frozenset[str]:
    doubtful = {
        row.uuid
        for row, answer in answers
        if row.status != "gone" or row.incomplete or isinstance(answer, MeltlineError)
    }
    return frozenset({row.uuid for row, _ in answers} - doubtful - set(standing))
