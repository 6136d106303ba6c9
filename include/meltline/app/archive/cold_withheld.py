"""Withholds files from a purge whose copy in cold is unproved, because a gate would refuse them.

Purge planning calls it. A refused file would block all others in its plan. A damaged copy is made
again from its original. If the original is gone as well, for example because its path was
overwritten, no repair is possible. Then everything that is proved is purged, and the others are
kept and reported.
"""

from collections.abc import Mapping, Sequence

from meltline.app.archive.cold_facts import Side
from meltline.app.archive.copy_proofs import unproved_copies
from meltline.app.archive.copy_repair import refused_for_cold
from meltline.app.services import RunContext
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.deletion.withheld import Why
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import Departure, PlannedFile


def without_proof(context: RunContext, due: Mapping[str, Sequence[Departure]]) -> frozenset[str]:
    """Returns departures, given by owner, whose copy in cold no gate could accept.

    It compares what stores show. Copies are read only if a gate has recently refused because of
    cold, and as long as some are unproved. Otherwise the gate alone reads those in stores without
    versions. If cold cannot be read, the gate reports it.
    """
    if not due or context.cold is None or context.copies is None or context.rows is None:
        return frozenset()
    groups = Groups(context.control.registrations.sharing())
    beside = groups.together(due)
    archived = {copy.table_uuid for copy in context.control.archived.all(sorted(beside))}
    doubted = refused_for_cold(context) | _unproved_before(context)
    unproved: set[str] = set()
    try:
        side = Side.of(context)
        for owner, departures in due.items():
            unproved |= unproved_copies(
                context.control.copies,
                side,
                [PlannedFile(d.path, d.kind, d.bytes, d.owner) for d in departures],
                recorded_alone=not groups.members(owner) & archived,
                read=owner in doubted,
            ).keys()
    except MeltlineError:
        return frozenset()
    return frozenset(unproved)


def _unproved_before(context: RunContext) -> set[str]:
    """Returns tables whose last plans left out files with an unproved copy."""
    names = {
        withheld.table
        for withheld in context.control.places.withheld()
        if withheld.why is Why.UNPROVED
    }
    return {row.uuid for row in context.control.registrations.all() if str(row.name) in names}
