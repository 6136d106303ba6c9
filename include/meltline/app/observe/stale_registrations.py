"""Names that a table has left, as the planner counts them: the gate reads their metadata too.

A table that was renamed goes on under its new name. A second registration that had commits of its
own does not, nor does a table that another tool dropped: either may be registered again, so what
its last metadata refers to stays, and a hold that lies on it holds.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from meltline.app.catalog.dropped import let_go_tables
from meltline.app.catalog.metadata import metadata_of
from meltline.app.catalog.registrations import LastSeen, load_last_seen
from meltline.app.catalog.tables import ObservedTable, observed_table
from meltline.app.services import RunContext
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.errors import MeltlineError, MetadataMissing
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogListing, KnownTable

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
    rows = context.control.registrations.all()
    let_go = let_go_tables(rows)
    needed = standing | let_go.keys()
    left = [
        row
        for row in rows
        if _has_left(row, listings) and (row.uuid in needed or len(groups.members(row.uuid)) > 1)
    ]
    ended = {row.uuid: let_go[row.uuid] for row in left if row.uuid in let_go}
    answers = load_last_seen(context.store, left)
    ends = load_last_seen(context.store, list(ended.values()))
    after = [*readable, *metadata_of(state for _, state in ends)]
    return LeftBehind(
        tables=tuple(
            observed_table(context, state, listings.get(state.name.catalog, _UNLISTED))
            for state in _ended(answers, after)
        ),
        fully_read=_fully_read(answers) - standing,
        unclear=_unclear(answers),
    )


def _has_left(row: KnownTable, listings: Mapping[str, CatalogListing]) -> bool:
    """Whether a table has left a name, or may have: its catalog could not be listed."""
    return row.status == "gone" or row.name.catalog not in listings


def _ended(
    answers: Iterable[LastSeen], after: Sequence[TableMetadata]
) -> Collection[TableMetadata]:
    """Last states that no other goes on from, each metadata file once."""
    states = metadata_of(state for _, state in answers)
    later = grouped(after, lambda state: state.table_uuid)  # only one of the same can go on
    return {
        state.metadata_location: state
        for state in states
        if not any(each.continues(state) for each in later.get(state.table_uuid, ()))
    }.values()


def _fully_read(answers: Iterable[LastSeen]) -> frozenset[str]:
    """Registrations that have left each of their names and could be read there, by UUID."""
    uuids, doubtful = set(), set()
    for row, answer in answers:
        uuids.add(row.uuid)
        if row.status != "gone" or row.incomplete or isinstance(answer, MeltlineError):
            doubtful.add(row.uuid)
    return frozenset(uuids - doubtful)


def _unclear(answers: Iterable[LastSeen]) -> Mapping[str, str]:
    """Why it cannot be told what a name referred to; of what is missing the index tells."""
    return {
        row.uuid: f"{row.name} ({row.status}): {answer.message}"
        for row, answer in answers
        if isinstance(answer, MeltlineError) and not isinstance(answer, MetadataMissing)
    }
