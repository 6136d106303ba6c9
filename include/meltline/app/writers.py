"""What the marks of streaming writers keep: for `explain`, and as advice of `doctor`."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.app.tables import Kept
from meltline.domain.keep import KeepReason
from meltline.domain.quantities import format_instant
from meltline.domain.writers import WriterMark

_MUCH = 100  # snapshots that nothing but a mark keeps, before doctor speaks of it
_EXAMPLES = 5
_ALONE = (KeepReason.WRITER,)
_DAY = timedelta(hours=24)


@dataclass(frozen=True)
class WriterAdvice:
    """A mark that keeps much, and what to do about it."""

    object: str
    message: str
    fix: str


def writers_needing(kept: Kept, snapshot_id: int) -> list[WriterMark]:
    """The marks that are reached over a snapshot; the one that counts longest comes first."""
    reached: list[WriterMark] = []
    for branch, marks in _by_branch(kept.keeps.marks):
        line = kept.table.state.ancestry(kept.table.state.refs[branch].snapshot_id)
        for step, snapshot in enumerate(line, start=1):
            if snapshot.snapshot_id == snapshot_id:
                reached += [mark for mark in marks if mark.steps >= step]
                break
    return sorted(reached, key=lambda mark: mark.seen_at, reverse=True)


def described(kept: Kept, marks: Sequence[WriterMark]) -> tuple[str, ...]:
    """Each writer, where its mark is, when it was last seen and until when it counts."""
    lines = [
        f"{mark.writer}: its mark is snapshot {mark.snapshot_id} on {mark.branch}, last seen "
        f"{format_instant(mark.seen_at)}, counts until {format_instant(until(kept, mark))}"
        for mark in marks[:_EXAMPLES]
    ]
    more = len(marks) - _EXAMPLES
    return (*lines, *([f"and {more} more writers"] if more > 0 else []))


def until(kept: Kept, mark: WriterMark) -> datetime:
    """When a writer that is not seen any more counts as silent."""
    return mark.seen_at + kept.retention.writer_keep


def writer_advice(kept: Kept, now: datetime) -> Iterator[WriterAdvice]:
    """The marks that keep many snapshots which nothing else keeps."""
    state, keeps = kept.table.state, kept.keeps
    for branch, marks in _by_branch(keeps.marks):
        line = state.ancestry(state.refs[branch].snapshot_id)
        alone = [keeps.reasons.get(snapshot.snapshot_id) == _ALONE for snapshot in line]
        furthest = sorted(marks, key=lambda mark: mark.steps, reverse=True)
        ends = [*(mark.steps for mark in furthest[1:]), 0]
        for mark, end in zip(furthest, ends, strict=True):
            if (count := sum(alone[end : mark.steps])) >= _MUCH:
                yield _advice(kept, mark, count, now)


def _advice(kept: Kept, mark: WriterMark, count: int, now: datetime) -> WriterAdvice:
    name, days = str(kept.table.state.name), (now - mark.seen_at) // _DAY
    return WriterAdvice(
        object=name,
        message=f"{mark.writer} is silent since {format_instant(mark.seen_at)} and may come back: "
        f"{count} snapshots of {mark.branch} stay for nothing but its way to its mark, "
        f"snapshot {mark.snapshot_id}, until {format_instant(until(kept, mark))}",
        fix="have it commit, so that its mark moves on; if it does not come back, let go of marks "
        f"that are as old: `meltline policy set {shlex.quote(name)} --writer-keep-days {days}`",
    )


def _by_branch(marks: Iterable[WriterMark]) -> Iterable[tuple[str, list[WriterMark]]]:
    found: dict[str, list[WriterMark]] = {}
    for mark in marks:
        found.setdefault(mark.branch, []).append(mark)
    return found.items()
