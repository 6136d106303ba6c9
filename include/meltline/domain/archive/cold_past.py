"""Resolves a point of a table's past to an archived snapshot, by proof only (AR-28).

A copy answers for the time in which main certainly was at that snapshot. Between two copies is a
gap in which another snapshot was current that cold does not have. For a time in a gap the result is
an error that names the intervals on both sides, never the nearest snapshot.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from meltline.domain.archive.archive import ArchivedSnapshot, read_archived
from meltline.domain.errors import OutsideRetention, RefNotFound, StatementNotFound
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.iceberg.timeline import log_by_time
from meltline.domain.safe_text import quote
from meltline.domain.time_travel.timetravel import (
    STATEMENT_ID,
    Moment,
    PointSide,
    Resolved,
    TagPoint,
    TravelPoint,
)
from meltline.domain.units import format_instant


@dataclass(frozen=True)
class Ended:
    """A completed statement, as recorded in the ledger."""

    id: str
    started_at: datetime
    completed_at: datetime


@dataclass(frozen=True)
class ColdPast:
    """The past of a table, as archived.

    Attributes:
        table: The hot table's name, as requested.
        state: The cold table.
    """

    table: TableName
    state: TableMetadata

    def resolve(self, point: TravelPoint, statement: Ended | None = None) -> Resolved:
        """Returns the archived snapshot that a point resolves to.

        Args:
            point: The point.
            statement: The ledger's record of it, if it is a statement.

        Raises:
            OutsideRetention: It is in a gap: cold does not have the snapshot that was current then.
            RefNotFound: No archived snapshot had such a tag.
            StatementNotFound: It is unknown when the statement ran.
        """
        if isinstance(point.to, Moment):
            return self._at(point.to.at, point.side)
        if isinstance(point.to, TagPoint):
            return self._by_tag(point.to.name, point.side)
        if statement is None:
            raise StatementNotFound(
                f"nobody knows when statement {point.to.id} ran",
                object=point.to.id,
                expected="a statement of `meltline sql`",
                found="none of that id in the ledger",
                next="give a time instead",
            )
        return self._by_statement(statement, point.side)

    def at(self, instant: datetime) -> Resolved:
        """Returns main's snapshot at an instant. Raises OutsideRetention."""
        return self._at(instant, PointSide.AT)

    def of(self, snapshot_id: int) -> Resolved | None:
        """Returns an archived snapshot with its interval on main; None if cold does not have it.

        The interval is empty if it is not proved that main ever was at it.
        """
        if snapshot_id not in self.state.snapshots:
            return None
        copy = next((copy for copy in self._copies() if copy.snapshot_id == snapshot_id), None)
        committed = self.state.snapshots[snapshot_id].committed_at
        start, end = self._span(copy) if copy else (committed, committed)
        return Resolved(snapshot_id, start, end)

    def _copies(self) -> list[ArchivedSnapshot]:
        return read_archived(self.state, self.table)

    @staticmethod
    def _span(copy: ArchivedSnapshot) -> tuple[datetime, datetime]:
        """Returns the proved interval; one not seen replaced ends when it was verified."""
        return copy.validity.start, copy.validity.end or copy.verified_at

    def _at(self, at: datetime, side: PointSide) -> Resolved:
        """Resolves by the innermost interval around an instant: rollbacks nest intervals."""
        around = [
            (start, copy.snapshot_id)
            for copy in self._copies()
            for start, end in [self._span(copy)]
            if (start <= at < end if side is PointSide.AT else start < at <= end)
        ]
        if not around:
            raise self._gap(at)
        snapshot_id = max(around)[1]
        if self._is_contradicted(snapshot_id, at, side):
            raise self._gap(at)
        return self._narrowed(snapshot_id, at, side)

    def _is_contradicted(self, snapshot_id: int, at: datetime, side: PointSide) -> bool:
        """Whether main's log changes inside the interval to a snapshot that cold does not have."""
        come = [
            e
            for e in log_by_time(self.state)
            if (e.at <= at if side is PointSide.AT else e.at < at)
        ]
        copy = next(copy for copy in self._copies() if copy.snapshot_id == snapshot_id)
        last = come[-1] if come else None
        return (
            last is not None and last.at > copy.validity.start and last.snapshot_id != snapshot_id
        )

    def _narrowed(self, snapshot_id: int, at: datetime, side: PointSide) -> Resolved:
        """Returns the part of a snapshot's interval, around an instant, without another head."""
        changes = set(self._changes())
        if side is PointSide.AT:
            since = max(change for change in changes if change <= at)
            return Resolved(snapshot_id, since, min(c for c in changes if c > at))
        since = max(change for change in changes if change < at)
        return Resolved(snapshot_id, since, min(c for c in changes if c >= at))

    def _changes(self) -> Iterator[datetime]:
        """Yields the times at which main's head changed, as far as cold knows."""
        for copy in self._copies():
            yield from self._span(copy)
        for logged in self.state.snapshot_log:
            yield logged.at

    def _by_tag(self, name: str, side: PointSide) -> Resolved:
        tags = self.state.tags
        resolved = self.of(tags[name]) if name in tags else None
        if resolved is None:
            raise RefNotFound(
                f"no archived snapshot of {self.table} had a tag {name}",
                object=str(self.table),
                expected=", ".join(sorted(tags)[:8]) or "a tag; none of its copies has one",
                found=name,
                next=f"`meltline cold list {quote(self.table)}` lists what is there",
            )
        if side is PointSide.AT:
            return resolved
        return self._at(resolved.valid_from, side)

    def _by_statement(self, statement: Ended, side: PointSide) -> Resolved:
        """Resolves a statement: AT is the head at its end, BEFORE the one before its first commit.

        That is proved only if the head at its start was replaced by one of its own commits, or not
        replaced while it ran.
        """
        if side is PointSide.AT:
            return self.at(statement.completed_at)
        before = self.at(statement.started_at)
        own = [
            copy.validity.start
            for copy in self._copies()
            if self.state.snapshots[copy.snapshot_id].summary.get(STATEMENT_ID) == statement.id
        ]
        end = before.valid_to
        if end is not None and end <= statement.completed_at and end not in own:
            raise self._gap(end)
        return before

    def _gap(self, at: datetime) -> OutsideRetention:
        """Builds the error that names what cold has on both sides of an instant."""
        spans = ((*self._span(copy), copy.snapshot_id) for copy in self._copies())
        proved = sorted(span for span in spans if span[0] < span[1])
        before = max((s for s in proved if s[1] <= at), key=lambda s: s[1], default=None)
        after = next((s for s in proved if s[0] > at), None)
        nearest = [_span_text(*span) for span in filter(None, (before, after))]
        return OutsideRetention(
            f"cold does not have what {self.table} was at {format_instant(at)}",
            object=str(self.table),
            expected="a time at which an archived snapshot was current; the nearest: "
            + ("; ".join(nearest) or "none is archived with its time"),
            found=f"{format_instant(at)}: in a gap",
            next=f"choose such a time, or a tag; `meltline cold list {quote(self.table)}` lists "
            "them",
        )


def _span_text(start: datetime, end: datetime, snapshot_id: int) -> str:
    return f"{format_instant(start)} to {format_instant(end)} (snapshot {snapshot_id})"
