"""What a run leaves undone where nobody has armed its catalog."""

from dataclasses import dataclass

from meltline.app.drop.finalize import due_drops
from meltline.app.observe.observe import Observation
from meltline.app.run_request import RunRequest
from meltline.app.safety.arming import ArmingCheck
from meltline.app.services import RunContext


@dataclass(frozen=True)
class NotArmedCounts:
    """What a run would have done beside its plans; these stand in its summary by themselves.

    Attributes:
        drops: Dropped tables whose retention has ended, and that stay.
        orphans: Files that a sweep would have had begin to wait.
    """

    catalog: str
    drops: int = 0
    orphans: int = 0
    orphan_bytes: int = 0


def not_armed(
    context: RunContext, observation: Observation, request: RunRequest
) -> NotArmedCounts | None:
    """What is not let go since nobody has armed the catalog; None where somebody has."""
    listing = observation.listings.get(context.config.hot)
    if listing is None or not (refused := ArmingCheck.of(context).refusal(listing)):
        return None
    drops = due_drops(context, observation, request.as_of, request.tables)
    return NotArmedCounts(refused.object, drops=len(drops))
