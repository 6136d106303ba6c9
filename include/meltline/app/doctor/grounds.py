"""What `init` stands on, looked at before; and what it has made, looked at by another way after."""

from collections.abc import Sequence

from meltline.app.safety.preconditions import write_probe
from meltline.app.services import RunContext
from meltline.domain.errors import SetupMissing, StoreRefused
from meltline.domain.iceberg.names import TableName
from meltline.ports import CatalogListing


def require_grounds(context: RunContext) -> None:
    """Makes what catalogs and warehouses stand on where it may, and names what is missing.

    Raises:
        CatalogUnlistable: A catalog does not answer.
        SetupMissing: A catalog has no place for tables.
        StoreRefused: A warehouse cannot be written to.
    """
    if context.lay_foundations is not None:
        context.lay_foundations()
    hot = context.config.catalogs[context.config.hot].warehouse
    write_probe(context.writer, context.remover, hot)
    if context.cold is not None:
        try:
            write_probe(context.cold.writer, context.cold.remover, context.cold.warehouse)
        except StoreRefused as refused:
            raise type(refused)(
                f"the archive {context.config.cold} cannot be used: {refused.message}",
                object=refused.object,
                expected=refused.expected,
                found=refused.found,
                next=refused.next,
            ) from refused


def require_made(context: RunContext, listing: CatalogListing, tables: Sequence[str]) -> None:
    """Looks whether the hot catalog has what Spark was told that it has.

    Args:
        context: Whose ledger it is.
        listing: The catalog as our own client sees it.
        tables: Those that the ledger has.

    Raises:
        SetupMissing: It has not.
    """
    catalog, space = context.config.hot, (context.config.ledger_namespace,)
    missing = [name for name in tables if listing.of(TableName(catalog, space, name)) is None]
    if not tables or not missing:
        return
    where = f"namespace {'.'.join((catalog, *space))}"
    present = "no such namespace" if space not in listing.namespaces else f"it lacks {missing[0]}"
    raise SetupMissing(
        f"catalog {catalog} has not made what it answered yes to",
        object=where,
        expected=f"the ledger's {len(tables)} tables",
        found=f"{present}, {len(missing)} of them in all",
        next="see whether Spark and Meltline are told the same catalog (its address, warehouse and "
        "name), and look at the catalog's own log; then run `meltline init` again",
    )
