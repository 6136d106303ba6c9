"""Options for a point in time: `--at` or `--before`, with a selector.

`query` and `clone` use it.
"""

from datetime import datetime
from typing import Annotated

import typer

from meltline.cli.options import instant
from meltline.domain.errors import UsageInvalid
from meltline.domain.time_travel.timetravel import (
    Moment,
    PointSide,
    StatementPoint,
    TagPoint,
    TravelPoint,
    moment_of_offset,
)
from meltline.domain.units import parse_moment

At = Annotated[bool, typer.Option("--at", help="with the change at that point")]
Before = Annotated[bool, typer.Option("--before", help="without it")]
Timestamp = Annotated[
    str | None, typer.Option("--timestamp", metavar="T", help="ISO 8601 with an offset")
]
Offset = Annotated[float | None, typer.Option("--offset", metavar="SECONDS", help="from now: -300")]
StatementId = Annotated[
    str | None, typer.Option("--statement", metavar="ID", help="a completed statement")
]
TagName = Annotated[str | None, typer.Option("--tag", metavar="NAME", help="a tag")]
SELECTORS = "--timestamp, --offset, --statement or --tag"


def travel_point(
    now: datetime,
    at: bool,
    before: bool,
    timestamp: str | None,
    offset: float | None,
    statement: str | None,
    tag: str | None,
) -> TravelPoint | None:
    """Builds the point that the options select; None if they select none.

    Raises:
        UsageInvalid: They select an incomplete point, or more than one.
    """
    given = [word for word in (timestamp, offset, statement, tag) if word is not None]
    if not (at or before or given):
        return None
    if at is before:
        raise UsageInvalid(
            "either --at or --before",
            object="--at, --before",
            expected="one of the two",
            found="both" if at else "neither",
            next="--at includes the change at that point, --before does not",
        )
    side = PointSide.AT if at else PointSide.BEFORE
    if len(given) != 1:
        raise UsageInvalid(
            "one point is needed",
            object=f"--{side}",
            expected=f"one of {SELECTORS}",
            found=f"{len(given)} of them",
            next="say which point of the past is meant",
        )
    return TravelPoint(side, _selected(now, timestamp, offset, statement, tag))


def _selected(
    now: datetime,
    timestamp: str | None,
    offset: float | None,
    statement: str | None,
    tag: str | None,
) -> Moment | StatementPoint | TagPoint:
    if moment := instant(timestamp, "--timestamp", parse_moment):
        return Moment(moment)
    if offset is not None:
        return Moment(moment_of_offset(now, offset))
    return StatementPoint(statement) if statement is not None else TagPoint(tag or "")
