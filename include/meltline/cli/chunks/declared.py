"""What commands about chunks have in common: names, a table's cut, and an empty answer."""

from typing import Annotated

import typer

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.chunks.replication.declare import LayoutWish
from meltline.domain.chunks.ranges import Unit, parse_chunk_address
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import TableName

ChunkArgument = Annotated[
    str, typer.Argument(metavar="CHUNK", help="catalog.namespace.table@2026-01-05")
]
Column = Annotated[
    str, typer.Option("--column", metavar="NAME", help="the column of times; else the partition's")
]
UnitOption = Annotated[
    Unit | None, typer.Option("--unit", help="how long a chunk is; else as the partition's")
]
Pattern = Annotated[
    str,
    typer.Option(
        "--pattern", metavar="TEXT", help="of integers and strings: s, ms, us, h, d or %Y%m%d"
    ),
]


def cut(column: str, unit: Unit | None, pattern: str) -> LayoutWish:
    """How a person says that a table is cut."""
    return LayoutWish(column, unit, pattern)


def chunk_of(text: str) -> tuple[TableName, str]:
    """A chunk's table, and its own name.

    Raises:
        UsageInvalid: It is no name of a chunk.
        TableNotFound: The table's name leaves something out.
    """
    try:
        table, name = parse_chunk_address(text)
    except ValueError as error:
        raise UsageInvalid(
            str(error),
            object="CHUNK",
            expected="a table, @ and the chunk's begin in UTC",
            found=text,
            next="`meltline chunks list TABLE` names a table's chunks",
        ) from error
    return parse_table_name(table), name
