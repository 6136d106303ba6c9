"""Files whose copy in cold nobody can vouch for: their gate would refuse them, and all beside them.

A copy that was damaged is made anew from its original. Where that is gone as well, say because
something else was written under its path, nothing can be mended: what can be proved goes all the
same, and the others stay, by name.
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
    """Those of some departures, given by owner, of which no gate could say that cold has them.

    It tells by what stores show. Copies are read where a gate has lately refused because of cold,
    and for as long as some cannot be proved; else the gate alone reads those of stores that cannot
    vouch for them. Where cold cannot be asked the gate says so.
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
    """Tables of which the last plans have left out what nobody could vouch for."""
    names = {
        withheld.table
        for withheld in context.control.places.withheld()
        if withheld.why is Why.UNPROVED
    }
    return {row.uuid for row in context.control.registrations.all() if str(row.name) in names}
