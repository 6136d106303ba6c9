"""Allowed owners: a person says that a foreign owner is known, and needs nothing any more."""

from meltline.app.safety.audit import audit
from meltline.app.safety.epochs import raise_epoch
from meltline.app.services import ReadContext
from meltline.domain.deletion.foreign_owners import AllowedOwner
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.locations import claim_prefix


def allow(context: ReadContext, id: str, reason: str) -> AllowedOwner:
    """Has signs of an owner stop nothing any more.

    Args:
        context: Where that is recorded.
        id: A UUID or a path as `doctor` names it, or a folder that is one table's alone.
        reason: Why.

    Raises:
        UsageInvalid: There is no reason, or the id is neither a sign nor a table's folder.
        MeltlineError: The epoch cannot be raised.
    """
    if not reason.strip():
        raise UsageInvalid(
            f"allowing {id} needs a reason",
            object=id,
            expected="--reason TEXT: why its owner needs nothing there",
            found="no reason",
            next="give the reason; `meltline sweep disallow` takes the word back",
        )
    owner_id = _owner_id(context, id)
    raise_epoch(context, "sweep allow")
    owner = AllowedOwner(owner_id, context.who, reason.strip(), context.clock.now())
    context.control.owners.allow(owner)
    audit(context, "sweep allow", owner_id, reason.strip())
    return owner


def disallow(context: ReadContext, id: str) -> bool:
    """Has signs of an owner stop their folders again; False where it was never allowed."""
    was_allowed = context.control.owners.disallow(id)
    if was_allowed:
        raise_epoch(context, "sweep disallow")
        audit(context, "sweep disallow", id)
    return was_allowed


def _owner_id(context: ReadContext, id: str) -> str:
    """The id as signs and folders have it: what nobody has found cannot be allowed."""
    ids = {sign.id for sign in context.control.owners.signs()} - {""}
    folders = {owned.prefix for owned in context.control.registrations.ownerships()}
    for spelling in (id, claim_prefix(id) if "/" in id else id):
        if spelling in ids | folders:
            return spelling
    raise UsageInvalid(
        f"no foreign owner {id} was found",
        object=id,
        expected=", ".join(sorted(ids)[:5]) or "an id that `meltline doctor` names",
        found=id,
        next="`meltline sweep` looks for owners, and `meltline doctor` names their ids",
    )
