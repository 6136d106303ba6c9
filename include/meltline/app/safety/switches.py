"""The stop switch: it holds back every destructive step, on all machines."""

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


@dataclass(frozen=True)
class Disarmed:
    """A catalog that was disarmed.

    Attributes:
        unnoted: Why the catalog was not told of it; None where it was. Nothing is destroyed either
            way, but an older backup of the control database would not be known for one.
    """

    catalog: str
    unnoted: MeltlineError | None = None


def arm(context: ReadContext, catalog: str, reason: str) -> Arming:
    """Lets scheduled runs destroy in the hot catalog from now on. The catalog is told first.

    Raises:
        UsageInvalid: It is not the hot catalog, or there is no reason.
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
    """Has nothing be destroyed any more: at once by the control ledger, then the catalog is told.

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
