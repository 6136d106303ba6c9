"""The stop switch and arming: blocks or allows destructive steps on all machines.

Only the CLI calls it. A block is stored in the control ledger first, a permission in the catalog.
"""

from dataclasses import dataclass
from uuid import uuid4

from meltline.app.safety.arming import ARMED, ArmingCheck
from meltline.app.safety.audit import audit
from meltline.app.safety.epochs import STOPPED, raise_epoch
from meltline.app.services import ReadContext
from meltline.domain.arming import Arming
from meltline.domain.errors import MeltlineError, UsageInvalid
from meltline.domain.units import format_instant
from meltline.ports import StopSwitch

_LONGEST_REASON = 500  # a SQL catalog limits properties to a thousand characters


@dataclass(frozen=True)
class StopInForce:
    """A stop in force.

    Attributes:
        unnoted: Why the catalog could not be updated; None if it was. The stop is effective either
            way, but an older backup of the control database would not be recognized.
    """

    switch: StopSwitch
    unnoted: MeltlineError | None = None


def stop(context: ReadContext, reason: str) -> StopInForce:
    """Stops everything at once through the control ledger, and then updates the catalog."""
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
    """Ends a stop, after the catalog is updated. Raises as `raise_epoch` does."""
    raise_epoch(context, "go", removals=[STOPPED])
    context.control.switch.set(None)
    audit(context, "go", "everything", reason)


@dataclass(frozen=True)
class Disarmed:
    """A disarmed catalog.

    Attributes:
        unnoted: Why the catalog could not be updated; None if it was. Nothing is destroyed either
            way, but an older backup of the control database would not be recognized.
    """

    catalog: str
    unnoted: MeltlineError | None = None


def arm(context: ReadContext, catalog: str, reason: str) -> Arming:
    """Allows scheduled runs to destroy in the hot catalog. The catalog is updated first.

    Raises:
        UsageInvalid: It is not the hot catalog, or the reason is missing.
        MeltlineError: As `raise_epoch` does; nothing is armed then.
    """
    _require_hot(context, catalog)
    if not reason.strip():
        raise UsageInvalid(
            "arming a catalog needs a reason",
            object="--reason",
            expected="why scheduled runs may destroy there",
            found="nothing",
            next="say why: it is recorded in the catalog and in the audit",
        )
    warehouse, now = ArmingCheck.of(context).warehouse, context.clock.now()
    arming = Arming(catalog, warehouse, uuid4().hex, context.who, reason.strip(), now)
    raise_epoch(context, "arm", {ARMED: arming.written})
    context.control.switch.arm(arming)
    audit(context, "arm", catalog, arming.reason, warehouse)
    return arming


def disarm(context: ReadContext, catalog: str, reason: str = "") -> Disarmed:
    """Disarms the hot catalog at once through the control ledger, then updates the catalog.

    Raises:
        UsageInvalid: It is not the hot catalog.
    """
    _require_hot(context, catalog)
    context.control.switch.arm(None)
    audit(context, "disarm", catalog, reason)
    try:
        raise_epoch(context, "disarm", removals=[ARMED])
    except MeltlineError as unnoted:
        return Disarmed(catalog, unnoted)
    return Disarmed(catalog)


def _require_hot(context: ReadContext, catalog: str) -> None:
    hot = context.config.hot
    if catalog != hot:
        raise UsageInvalid(
            f"nothing is ever destroyed in catalog {catalog}: there is nothing to arm",
            object=catalog,
            expected=f"the hot catalog, {hot}",
            found=catalog,
            next=f"name {hot}, or look at `hot` in {context.config.path.name}",
        )
