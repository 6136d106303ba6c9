"""Finds the namespaces of shares by their properties, and reserves them for the share commands.

Commands that rename, drop or tag call it, so that no other command changes a share.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from meltline.domain.clone.shares import Share, read_share
from meltline.domain.errors import MeltlineError, UsageInvalid
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.safe_text import quote
from meltline.ports import CatalogEditor, CatalogListing


def shares_in(catalog: str, listing: CatalogListing) -> Iterator[Share]:
    """Yields a catalog's shares, without dropped ones."""
    for levels in listing.namespaces:
        share = share_at(ObjectName(catalog, levels), listing)
        if share is not None:
            yield share


def share_at(name: ObjectName, listing: CatalogListing) -> Share | None:
    """Returns the share that a namespace is, or None."""
    share = read_share(name.catalog, listing.namespaces.get(name.namespace, {}))
    return share if share is not None and share.place == name else None


def refuse_share(name: ObjectName, listing: CatalogListing, verb: str) -> None:
    """Refuses to rename or drop a share: readers and its tags refer to it by name.

    Raises:
        UsageInvalid: The object is a share.
    """
    share = share_at(name, listing)
    if share is None:
        return
    end = f"`meltline share drop {quote(share.name)}`"
    anew = f"`meltline share create NEW --from {quote(share.source)}`, then {end}"
    raise UsageInvalid(
        f"{name} is a share: there is no {verb} for it",
        object=str(name),
        expected="a database, schema or table of its own",
        found=f"the share {share.name} of {share.source}",
        next=end if verb == "drop" else anew,
    )


def follow_source(
    editor: CatalogEditor, before: ObjectName, after: ObjectName, listing: CatalogListing
) -> None:
    """Updates the shares of a renamed object, or of a part of it, with the new name.

    A share that changes concurrently is left as it is: its next update reports that its source is
    gone.
    """
    for share in shares_in(before.catalog, listing):
        source = _renamed(share.source, before, after)
        if source is None:
            continue
        current, new = share.written(), replace(share, source=source).written()
        changed = {key: text for key, text in new.items() if text != current[key]}
        expected = {key: current[key] for key in changed}
        with suppress(MeltlineError):
            editor.set_namespace_properties(share.place.namespace, changed, expected=expected)


def _renamed(source: ObjectName, before: ObjectName, after: ObjectName) -> ObjectName | None:
    """Returns a share's source once `before` is called `after`; None if it is not affected."""
    if before.kind is ObjectKind.TABLE:
        return after if source == before else None
    depth = len(before.namespace)
    if source.namespace[:depth] != before.namespace:
        return None
    return replace(source, namespace=after.namespace + source.namespace[depth:])
