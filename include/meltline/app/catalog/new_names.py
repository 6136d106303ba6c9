"""Validates new names of objects: they are in the right catalog, and free.

Rename, undrop, clone and share call it before they change a catalog.
"""

from meltline.domain.errors import NameConflict, NamespaceNotFound, UsageInvalid
from meltline.domain.iceberg.names import split_name
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.safe_text import quote
from meltline.ports import CatalogListing


def target_name(name: ObjectName, text: str, done: str) -> ObjectName:
    """Parses the new name of an object, in the object's catalog.

    Args:
        name: The object.
        text: The new name, in full.
        done: The operation as a participle, for the message, such as `renamed`.

    Raises:
        UsageInvalid: The text is not a name that the object can have.
    """

    def bad(problem: str) -> UsageInvalid:
        return UsageInvalid(
            f"{name} cannot be {done} to {text}",
            object=text,
            expected=f"a full name in catalog {name.catalog}",
            found=problem,
            next="write the new name in full, odd parts in backticks",
        )

    try:
        parts = split_name(text)
    except ValueError as error:
        raise bad(str(error)) from error
    if parts[0] != name.catalog or len(parts) < (3 if name.table else 2):
        raise bad("another catalog, or too few parts")
    if not name.table and is_in(parts[1:], name.namespace) and parts[1:] != name.namespace:
        raise bad("a name inside itself")
    if name.table:
        return ObjectName(name.catalog, parts[1:-1], parts[-1])
    return ObjectName(name.catalog, parts[1:])


def require_outer(target: ObjectName, listing: CatalogListing) -> None:
    """Refuses a new name in a namespace that does not exist.

    Raises:
        NamespaceNotFound: The namespace does not exist.
    """
    outer = target.namespace if target.table else target.namespace[:-1]
    if outer and outer not in listing.namespaces:
        where = ObjectName(target.catalog, outer)
        raise NamespaceNotFound(
            f"there is no {where.kind} {where}",
            object=str(where),
            expected="a namespace that is there",
            found="none of that name",
            next="create it with an engine, or correct the new name",
        )


def require_free(name: ObjectName, listing: CatalogListing) -> None:
    """Refuses a name that is taken.

    Raises:
        NameConflict: It is taken; the error says how to free it.
    """
    if is_there(name, listing):
        kind = name.kind
        raise NameConflict(
            f"a {kind} {name} is there already",
            object=str(name),
            expected="a free name",
            found=f"a {kind} of that name",
            next=f"give that one another name first: `meltline rename {quote(name)} NEW`",
        )


def is_there(name: ObjectName, listing: CatalogListing) -> bool:
    """Returns whether a catalog has an object with that name and kind."""
    if name.table:
        return listing.of(name.table_name) is not None
    return name.namespace in listing.namespaces


def is_in(levels: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    """Returns whether a namespace is another one, or is inside it."""
    return levels[: len(outer)] == outer
