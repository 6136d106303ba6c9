"""Operator override: discards a ledger timestamp that was written under a wrong clock.

A clock that was ahead leaves its time as the ledger's newest one, and every correct clock is behind
it until then. The override covers exactly that instant. From then on the newest time is that of the
override, and the next wrong clock is detected as usual. No waiting period that the wrong clock
began ends too early: departed files start their failsafe again. `meltline clock disown` calls it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from meltline.app.catalog.dropped import dropped_tables
from meltline.app.catalog.listings import list_catalogs
from meltline.app.catalog.tables import listed_tables
from meltline.app.safety.audit import audit
from meltline.app.safety.epochs import raise_epoch
from meltline.app.safety.preconditions import require_other_clocks
from meltline.app.services import ReadContext, RunContext
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.safe_text import quote
from meltline.domain.units import format_instant
from meltline.ports import DisownedTime

DISOWN = "clock disown"


@dataclass(frozen=True)
class Disowned:
    """Result of an override, with the rows that had the discarded clock's times.

    Attributes:
        departures: Number of files whose whole failsafe starts again.
        sightings: Number of snapshots that count as unreferenced from now on only.
        leases: Number of leases shortened to end as if they were acquired now.
        remaining: Times in the future that remain, each with its remedy.
    """

    word: DisownedTime
    departures: int
    sightings: int
    leases: int
    remaining: tuple[str, ...]


def disown(context: RunContext, recorded: datetime, reason: str) -> Disowned:
    """Records the override. Safe to repeat after a kill: the override itself is stored last.

    Raises:
        UsageInvalid: There is no reason, the time is not the newest one, or it has passed.
        ClockRefused: The database or the store has another time than this machine.
        LedgerOutOfStep: The ledger is not the one that belongs to the catalog.
    """
    now = context.clock.now()
    _require_newest(context, recorded, reason, now)
    require_other_clocks(context)
    raise_epoch(context, DISOWN)
    word = DisownedTime(recorded, context.who, reason.strip(), now)
    done = Disowned(
        word,
        departures=_wait_anew(context, now),
        sightings=_seen_now(context, now),
        leases=_last_from_now(context, now),
        remaining=tuple(_future_times(context, now)),
    )
    if not context.control.decisions.disown_time(word):
        _require_newest(context, recorded, reason, now)
    detail = f"{done.departures} files wait anew, {done.leases} leases were shortened"
    audit(context, DISOWN, format_instant(recorded), word.reason, detail)
    return done


def _require_newest(context: ReadContext, recorded: datetime, reason: str, now: datetime) -> None:
    newest = context.control.database.newest_time()
    if reason.strip() and newest == recorded and newest > now:
        return
    shown = "none" if newest is None else format_instant(newest)
    raise UsageInvalid(
        "only the newest time of the ledger can be disowned, and only before it has come",
        object=format_instant(recorded),
        expected=f"{shown}, if it is after {format_instant(now)}, and --reason TEXT",
        found=f"{format_instant(recorded)}, {'a reason' if reason.strip() else 'no reason'}",
        next="`meltline doctor` says whether the clock is behind the ledger",
    )


def _wait_anew(context: RunContext, now: datetime) -> int:
    """Restarts the failsafe of files that departed by that clock: they had departed by now."""
    waiting = context.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
    anew = [
        replace(d, due_at=now + (d.due_at - d.departed_at), departed_at=now, recorded_at=now)
        for d in waiting
        if d.departed_at > now
    ]
    if anew:
        context.files.departures.record({f"disowned-{uuid4()}": anew})
    return len(anew)


def _seen_now(context: RunContext, now: datetime) -> int:
    """Moves future times since when a snapshot is unreferenced to now."""
    later = {
        uuid: {
            number: replace(seen, unreferenced_since=now)
            for number, seen in of_table.items()
            if seen.unreferenced_since is not None and seen.unreferenced_since > now
        }
        for uuid, of_table in context.control.observations.sightings().items()
    }
    context.control.observations.save_sightings(later)
    return sum(map(len, later.values()))


def _last_from_now(context: RunContext, now: datetime) -> int:
    """Shortens leases that were acquired by that clock, as if they were acquired now."""
    ids = [
        lease.id
        for lease in context.control.leases.active(now)
        if (lease.expires_at - now).total_seconds() * 1000 > lease.ttl_ms > 0
    ]
    for id in ids:
        context.control.leases.renew(id, now)
    return len(ids)


def _future_times(context: RunContext, now: datetime) -> Iterator[str]:
    """Describes future times in the catalogs, which Meltline does not change."""
    listed = list_catalogs(context.catalogs.values())
    for unlisted in listed.unlisted.values():
        yield f"{unlisted.message}: what its tables are dated with is not known; {unlisted.next}"
    hot = listed.listings.get(context.config.hot)
    for table in dropped_tables(context, hot) if hot else ():
        if table.drop.at > now:
            name, then = table.drop.object, format_instant(table.drop.at)
            yield (
                f"{name} was dropped at {then}: its retention begins then; "
                f"`meltline undrop {quote(name)}` and `meltline drop {quote(name)}` have it "
                "begin now"
            )
    for seen in listed_tables(context, listed.listings):
        times = [snapshot.committed_at for snapshot in seen.state.snapshots.values()]
        if later := sum(time > now for time in times):
            yield (
                f"{seen.state.name} has {later} commits up to {format_instant(max(times))}: "
                "what they replaced is kept for its retention from then on; roll back and commit "
                "them again, or wait"
            )
