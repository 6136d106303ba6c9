"""Refreshes rollups: aggregates only the buckets whose source has changed.

Chunk runs, `rollups refresh` and the LakeTS functions call it. It is apart from `declare` because
it runs on schedule, under the rollup's lock.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from meltline.app.chunks.rollups.rollup_snapshot import RollupLook
from meltline.app.safety.preconditions import require_go
from meltline.app.services import ReadContext, RunContext
from meltline.domain.chunks.ranges import merged
from meltline.domain.chunks.rollup import (
    NO_SNAPSHOT,
    ROLLUP_SNAPSHOT,
    Rollup,
    RollupQuery,
    in_order,
)
from meltline.domain.errors import (
    CommitConflict,
    LockHeld,
    MeltlineError,
    RollupNotFound,
    Stopped,
)
from meltline.grammar.rollups import rollup_query
from meltline.ports import (
    Lock,
    RollupLedger,
    RollupReader,
    RollupRefresh,
)

_TRIES = 5
_LEASE = timedelta(minutes=2)


@dataclass(frozen=True)
class RefreshedRollup:
    """Result of refreshing a rollup.

    Attributes:
        is_refreshed: Whether there was anything to do.
        buckets: How many have other rows now.
        rows: How many were written, including unchanged rows in the same files.
        everything: Whether all buckets were aggregated that are not frozen.
        missed: Frozen buckets whose source has changed: they are never aggregated again (LT-30).
        seconds: How long it took.
        error: Why it was not refreshed; None on success.
    """

    rollup: Rollup
    is_refreshed: bool = False
    buckets: int = 0
    rows: int = 0
    everything: bool = False
    missed: int = 0
    seconds: float = 0.0
    error: MeltlineError | None = None


def refresh_rollups(context: RunContext, rollups: Iterable[Rollup]) -> list[RefreshedRollup]:
    """Refreshes rollups, each after its dependencies; a failed one does not stop the others."""
    refreshed = []
    for rollup in in_order(rollups):
        context.progress(f"rollup: {rollup.name} of {rollup.source}")
        try:
            refreshed.append(refresh_rollup(context, rollup.name))
        except (LockHeld, Stopped) as waiting:  # nothing is wrong with it
            refreshed.append(RefreshedRollup(rollup, error=waiting))
        except MeltlineError as error:
            _note_problem(context.control.rollups, rollup.name, error)
            refreshed.append(RefreshedRollup(rollup, error=error))
    return refreshed


def refresh_rollup(context: RunContext, name: str) -> RefreshedRollup:
    """Brings one rollup up to its source's head.

    Raises:
        RollupNotFound: No rollup has this name.
        RollupRefused: Its source, or its own table, is not what it was.
        CommitConflict: Another writer changed its table at each try.
        MeltlineError: Whatever reading and the engine raise.
    """
    require_go(context.control.switch)
    began = time.monotonic()
    with rollup_lock(context, name):
        for _ in range(_TRIES):
            refreshed = _refreshed(context, rollup_of(context.control.rollups, name))
            if refreshed is not None:
                return replace(refreshed, seconds=time.monotonic() - began)
    raise CommitConflict(
        f"others wrote to the table of rollup {name}, {_TRIES} times in a row",
        object=name,
        expected="its table as it was when the refresh began",
        found="a newer one each time",
        next="find out who writes there: nobody but a refresh should",
    )


def rollup_lock(context: ReadContext, name: str) -> AbstractContextManager[Lock]:
    """Serializes declaring, refreshing and dropping of a rollup. Raises LockHeld."""
    wait = context.config.limits.lock_wait
    return context.control.locks.take(f"rollup {name}", context.who, wait=wait, lease=_LEASE)


def rollup_of(rollups: RollupReader, name: str) -> Rollup:
    """Returns a rollup by its name. Raises RollupNotFound."""
    names = []
    for rollup in rollups.all():
        if rollup.name == name:
            return rollup
        names.append(rollup.name)
    raise RollupNotFound(
        f"there is no rollup {name}",
        object=name,
        expected=", ".join(names) or "a rollup; there is none",
        found="none",
        next="`meltline rollups list`; `SELECT lakets.create_rollup(…)` declares one",
    )


def query_of(rollups: Iterable[Rollup], rollup: Rollup) -> RollupQuery:
    """Parses a rollup's query; averages over averages of another rollup use their parts."""
    below = next((r for r in rollups if r.table_uuid == rollup.source_uuid), None)
    return rollup_query(rollup.query, rollup_query(below.query).averages if below else ())


def _refreshed(context: RunContext, rollup: Rollup) -> RefreshedRollup | None:
    """Tries once; None if the rollup's table has moved meanwhile."""
    engine = context.rollups
    assert engine is not None  # a run has an engine
    rollups, now = context.control.rollups, context.clock.now()
    look = RollupLook.take(context, rollup)
    if look.is_fresh:
        return _noted(rollups, now, RefreshedRollup(rollup), look)
    _note_missed(rollups, look)
    head = look.source.state.current_snapshot_id
    outcome = engine.refresh(
        RollupRefresh(
            query=query_of(rollups.all(), rollup),
            source=look.source.state.name,
            snapshot_id=head,
            layout=look.source.tracked.layout,
            table=look.own.state.name,
            base=look.own.state.metadata_location,
            stale=look.stale,
            properties={ROLLUP_SNAPSHOT: str(NO_SNAPSHOT if head is None else head)},
        )
    )
    if outcome is None:
        return None
    done = RefreshedRollup(
        rollup,
        is_refreshed=True,
        buckets=len(outcome.buckets),
        rows=outcome.rows,
        everything=look.stale.ranges is None,
        missed=rollup.buckets.count(look.stale.missed),
    )
    return _noted(rollups, now, done, look)


def change_rollup(rollups: RollupLedger, name: str, change: Callable[[Rollup], Rollup]) -> Rollup:
    """Changes a rollup in the ledger; concurrent changes to its other parts are kept.

    Raises:
        RollupNotFound: It no longer exists.
        CommitConflict: Others were faster each time.
    """
    for _ in range(_TRIES):
        before = rollup_of(rollups, name)
        after = change(before)
        if after == before or rollups.save(before, after):
            return after
    raise CommitConflict(
        f"rollup {name} was changed by others, {_TRIES} times in a row",
        object=name,
        expected="the rollup as it was read",
        found="a newer one each time",
        next="run it again",
    )


def _note_missed(rollups: RollupLedger, look: RollupLook) -> None:
    """Records missed buckets before the position moves: later refreshes skip their commits."""

    def change(now: Rollup) -> Rollup:
        return replace(now, missed=tuple(merged((*now.missed, *look.stale.missed))))

    if look.stale.missed:
        change_rollup(rollups, look.rollup.name, change)


def _noted(
    rollups: RollupLedger, at: datetime, done: RefreshedRollup, look: RollupLook
) -> RefreshedRollup:
    """Stores the refresh. Ranges that a user invalidated meanwhile stay for the next one."""
    source, before = look.source.state.name, look.rollup.invalidated

    def change(now: Rollup) -> Rollup:
        invalidated = () if now.invalidated == before else now.invalidated
        fresh = replace(now, source=source, invalidated=invalidated)
        return replace(fresh, last_refreshed_at=at, problem="")

    return replace(done, rollup=change_rollup(rollups, look.rollup.name, change))


def _note_problem(rollups: RollupLedger, name: str, error: MeltlineError) -> None:
    why = f"{error.message} ({error.found})" if error.found else error.message
    with suppress(RollupNotFound, CommitConflict):  # the error is reported in any case
        change_rollup(rollups, name, lambda rollup: replace(rollup, problem=why))
