"""CREATE OR REPLACE ... CLONE: clones to an existing name, and drops the object that had it.

The clone is first created under a temporary name, because its source may be the object that it
replaces. After any failure both objects remain, each under a name. The dropped one can be
undropped.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from secrets import token_hex

from meltline.app.catalog.new_names import is_there, target_name
from meltline.app.catalog.resolve import find_object, require_changeable
from meltline.app.catalog.share_namespaces import refuse_share
from meltline.app.clone.clone import Cloned, clone, clone_naming
from meltline.app.drop.drop import DropDone, drop, rename
from meltline.app.services import ReadContext
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.safe_text import quote
from meltline.domain.time_travel.timetravel import TravelPoint


def clone_over(
    context: ReadContext,
    source: str,
    target: str,
    kind: ObjectKind | None = None,
    *,
    replaces: bool,
    point: TravelPoint | None = None,
    ignore_insufficient: bool = False,
    dry_run: bool = False,
) -> tuple[Cloned, DropDone | None]:
    """Clones as `clone` does; with `replaces`, drops the object that has the new name.

    Returns:
        The clone, and the result of the drop; None if the name was free.

    Raises:
        UsageInvalid: The name belongs to a share; also every error of `clone`, `drop` and `rename`.
    """
    make = partial(
        clone,
        context,
        source,
        point=point,
        ignore_insufficient=ignore_insufficient,
        dry_run=dry_run,
    )
    if not replaces:
        return make(target, kind), None
    name = find_object(context, source, kind)
    new = target_name(name, target, "cloned")
    listing = require_changeable(context, new).listing()
    if not is_there(new, listing):
        return make(target, name.kind), None
    refuse_share(new, listing, "drop")
    beside = _beside(new)
    made = make(str(beside), name.kind)
    try:
        dropped = drop(context, str(new), new.kind, dry_run=dry_run)
    except MeltlineError:
        if not dry_run:
            with suppress(MeltlineError):
                drop(context, str(beside), beside.kind)
        raise
    try:
        if not dry_run:
            rename(context, str(beside), str(new), beside.kind)
    except MeltlineError as stop:
        stop.next = (
            f"the clone stands as {beside}: `meltline rename {quote(beside)} "
            f"{quote(new)}`; {stop.next}"
        )
        raise
    move = clone_naming(beside, new)
    created = tuple(replace(table, table=move(table.table)) for table in made.created)
    return replace(made, target=new, created=created), dropped


def _beside(name: ObjectName) -> ObjectName:
    suffix = f"__new_{token_hex(4)}"
    if name.table:
        return replace(name, table=name.table + suffix)
    return replace(name, namespace=(*name.namespace[:-1], name.namespace[-1] + suffix))
