"""The stop switch: it holds back every destructive step, on all machines."""

from dataclasses import dataclass

from meltline.app.ground.audit_log import audit
from meltline.app.ground.epochs import STOPPED, raise_epoch
from meltline.app.services import ReadContext
from meltline.domain.errors import MeltlineError
from meltline.domain.units import format_instant
from meltline.ports import StopSwitch

_LONGEST_REASON = 500  # a SQL catalog's properties take a thousand characters


@dataclass(frozen=True)
class StopInForce:
    """A stop that is in force.

    Attributes:
        unnoted: Why the catalog was not told of it; None where it was. The stop holds either way,
            but an older backup of the control database would not be known for one.
    """

    switch: StopSwitch
    unnoted: MeltlineError | None = None


def stop(context: ReadContext, reason: str) -> StopInForce:
    """Stops everything, at once and by the control ledger alone, and then tells the catalog."""
    switch = StopSwitch(context.who, reason, context.clock.now())
    context.control.switch.set(switch)
    audit(context, "stop", "everything", reason)
    note = f"{format_instant(switch.at)} {switch.who}: {reason[:_LONGEST_REASON]}"
    try:
        raise_epoch(context, "stop", {STOPPED: note})
    except MeltlineError as unnoted:
        return StopInForce(switch, unnoted)
    return StopInForce(switch)


def go(context: ReadContext, reason: str = "") -> None:
    """Lets everything go on, once the catalog knows it. Raises as `raise_epoch` does."""
    raise_epoch(context, "go", removals=[STOPPED])
    context.control.switch.set(None)
    audit(context, "go", "everything", reason)
