"""Counts of what a run leaves undone because its catalog is not armed.

The observe step calls it, and `run/summary.py` reports the counts. They are separate from plans:
finished drops and orphans have none.
"""

from dataclasses import dataclass

from meltline.app.drop.finalize import due_drops
from meltline.app.observe.observe import Observation
from meltline.app.run_request import RunRequest
from meltline.app.safety.arming import ArmingCheck
from meltline.app.services import RunContext


@dataclass(frozen=True)
class NotArmedCounts:
    """Counts of omitted work that has no plan; the summary lists them separately.

    Attributes:
        drops: Dropped tables past their retention that stay.
        orphans: Files for which a sweep would have started failsafe.
    """

    catalog: str
    drops: int = 0
    orphans: int = 0
    orphan_bytes: int = 0


def not_armed(
    context: RunContext, observation: Observation, request: RunRequest
) -> NotArmedCounts | None:
    """Counts drops that are not finalized as the catalog is not armed; None if it is."""
    listing = observation.listings.get(context.config.hot)
    if listing is None or not (refused := ArmingCheck.of(context).refusal(listing)):
        return None
    drops = due_drops(context, observation, request.as_of, request.tables)
    return NotArmedCounts(refused.object, drops=len(drops))
