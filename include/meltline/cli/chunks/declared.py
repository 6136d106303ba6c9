"""Shared arguments and options of chunk commands: a chunk's name, and a table's layout.

The other modules of this package use it.
"""

from typing import Annotated

import typer

from meltline.app.chunks.replication.declare import LayoutWish
from meltline.domain.chunks.ranges import Unit

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
    """Builds the layout that a user declares."""
    return LayoutWish(column, unit, pattern)
