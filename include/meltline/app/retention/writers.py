"""Snapshots that the marks of streaming writers keep.

`explain` shows the writers of a snapshot, and `doctor` advises on marks that keep many. The marks
themselves are computed in `domain/retention`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.app.catalog.tables import TableRetention
from meltline.domain.retention.retained_snapshots import KeepReason
from meltline.domain.retention.writers import WriterMark, walks
from meltline.domain.safe_text import quote
from meltline.domain.units import format_instant

_MUCH = 100  # snapshots that only a mark keeps, before doctor reports it
_EXAMPLES = 5
_ALONE = (KeepReason.WRITER,)
_DAY = timedelta(hours=24)


@dataclass(frozen=True)
class WriterAdvice:
    """A mark that keeps many snapshots, and the advice about it."""

    object: str
    message: str
    fix: str


class WriterNeeds:
    """Streaming writers that need snapshots of one table; each branch is walked once."""

    def __init__(self, target: TableRetention) -> None:
        self._keep = target.retention.writer_keep
        state, marks = target.table.state, target.keeps.marks
        self._ways = [
            ({id: step for step, id in enumerate(way, start=1)}, _marks_on(branch, marks))
            for branch, way in walks(state, marks).items()
        ]

    def of(self, snapshots: Iterable[int]) -> list[WriterMark]:
        """Marks that need any of the given snapshots; the one that counts longest is first."""
        ids, reached = set(snapshots), set[WriterMark]()
        for steps, marks in self._ways:
            if passed := steps.keys() & ids:
                first = min(steps[id] for id in passed)
                reached.update(mark for mark in marks if mark.steps >= first)
        return sorted(reached, key=lambda mark: mark.seen_at, reverse=True)

    def until(self, marks: Iterable[WriterMark]) -> list[datetime]:
        """Times at which writers that are not seen again count as silent."""
        return [mark.seen_at + self._keep for mark in marks]

    def described(self, marks: Sequence[WriterMark]) -> tuple[str, ...]:
        """Describes each writer: its mark, when it was last seen, and until when it counts."""
        lines = [
            f"{mark.writer}: its mark is snapshot {mark.snapshot_id} on {mark.branch}, last seen "
            f"{format_instant(mark.seen_at)}, counts until {format_instant(until)}"
            for mark, until in zip(marks[:_EXAMPLES], self.until(marks), strict=False)
        ]
        more = len(marks) - _EXAMPLES
        return (*lines, *([f"and {more} more writers"] if more > 0 else []))


def writer_advice(target: TableRetention, now: datetime) -> Iterator[WriterAdvice]:
    """Advises on marks that keep many snapshots which nothing else keeps."""
    state, keeps = target.table.state, target.keeps
    for branch in dict.fromkeys(mark.branch for mark in keeps.marks):
        marks = _marks_on(branch, keeps.marks)
        line = state.ancestry(state.refs[branch].snapshot_id)
        alone = [keeps.reasons.get(snapshot.snapshot_id) == _ALONE for snapshot in line]
        furthest = sorted(marks, key=lambda mark: mark.steps, reverse=True)
        ends = [*(mark.steps for mark in furthest[1:]), 0]
        for mark, end in zip(furthest, ends, strict=True):
            is_silent = now - mark.seen_at >= _DAY
            if is_silent and (count := sum(alone[end : mark.steps])) >= _MUCH:
                yield _advice(target, mark, count, now)


def _advice(target: TableRetention, mark: WriterMark, count: int, now: datetime) -> WriterAdvice:
    name, days = str(target.table.state.name), (now - mark.seen_at) // _DAY
    until = format_instant(mark.seen_at + target.retention.writer_keep)
    return WriterAdvice(
        object=name,
        message=f"{mark.writer} is silent since {format_instant(mark.seen_at)} and may come back: "
        f"{count} snapshots of {mark.branch} stay for nothing but its way to its mark, "
        f"snapshot {mark.snapshot_id}, until {until}",
        fix="have it commit, so that its mark moves on; if it does not come back, let go of marks "
        f"that are as old: `meltline policy set {quote(name)} --writer-keep {days}d`",
    )


def _marks_on(branch: str, marks: Iterable[WriterMark]) -> list[WriterMark]:
    return [mark for mark in marks if mark.branch == branch]
