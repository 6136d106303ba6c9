"""Remembers objects that purges kept because they differ from their record.

The purge that meets such an object reports it. Each later plan checks whether it still exists.
`purge.py` and `plan_purge.py` call it; it deletes nothing.
"""

from collections.abc import Sequence

from meltline.app.observe.held_back import note_withheld, withheld
from meltline.app.ownership.departed_objects import left_alone
from meltline.app.services import RunContext
from meltline.domain.deletion.withheld import Why
from meltline.domain.iceberg.files import Departure, DepartureState
from meltline.domain.iceberg.locations import OwnerIndex
from meltline.ports import ControlLedger


def left_by_now(context: RunContext) -> list[Departure]:
    """Finds the objects that purges kept, among all departures past their due time."""
    waiting = frozenset({DepartureState.FAILSAFE})
    due = context.files.departures.in_states(waiting, due_by=context.clock.now())
    return left_alone(context, due)


def note_left(control: ControlLedger, leftovers: Sequence[Departure]) -> None:
    """Stores the kept objects that still exist, for status, doctor and the summaries of runs."""
    names = {table.uuid: table.name for table in control.registrations.all()} if leftovers else {}
    owners = OwnerIndex(control.registrations.ownerships() if leftovers else ())
    why = dict.fromkeys([departure.path for departure in leftovers], Why.NOT_AS_RECORDED)
    note_withheld(control.places, "delete", withheld("delete", names, owners, leftovers, why))
