"""Records which foreign owners an operator has allowed, because they need no files any more.

The commands `sweep allow` and `sweep disallow` call it.
"""

from meltline.app.safety.audit import audit
from meltline.app.safety.epochs import raise_epoch
from meltline.app.services import ReadContext
from meltline.domain.deletion.foreign_owners import AllowedOwner
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.locations import claim_prefix


def allow(context: ReadContext, id: str, reason: str) -> AllowedOwner:
    """Allows a foreign owner: its signs block nothing any more.

    Args:
        context: Has the ledger and the catalogs.
        id: A UUID or a path as `doctor` shows it, or a folder of one table only.
        reason: Why; it is recorded.

    Raises:
        UsageInvalid: The reason is missing, or the id is neither a sign nor a table's folder.
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
    """Revokes an allowed owner, so that its signs block again; False if it was not allowed."""
    was_allowed = context.control.owners.disallow(id)
    if was_allowed:
        raise_epoch(context, "sweep disallow")
        audit(context, "sweep disallow", id)
    return was_allowed


def _owner_id(context: ReadContext, id: str) -> str:
    """Returns the id as in signs and folders; only an owner that was found can be allowed."""
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
