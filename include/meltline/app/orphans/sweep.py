"""Sweep: files that nothing refers to become departures, and wait in failsafe like all others.

The order is what makes it safe (AR-16): the store is listed first, then all metadata is read, then
it is decided. A file that was committed meanwhile is known by then. Nothing is deleted here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from meltline.app.catalog.metadata import load_concurrently
from meltline.app.observe.held_back import note_withheld
from meltline.app.observe.observe import Observation, observe
from meltline.app.orphans.foreign_claims import leave_foreign
from meltline.app.orphans.orphan_candidates import (
    Candidate,
    Candidates,
    leave_held_back,
    leave_other_names,
    sift,
)
from meltline.app.orphans.scan_roots import Claims, places_to_sweep
from meltline.app.ownership.foreign_owners import seen_sign
from meltline.app.run_request import RunRequest
from meltline.app.safety.arming import ArmingCheck
from meltline.app.safety.audit import audit
from meltline.app.safety.preconditions import require_clock, require_generation
from meltline.app.services import RunContext, SweepServices
from meltline.domain.deletion.orphans import (
    Inventory,
    OrphanObservation,
    StrayVerdict,
    SweepSettings,
    SweptPlaces,
    kind_of,
    verdict_on,
)
from meltline.domain.errors import NotArmed, UsageInvalid
from meltline.domain.iceberg.files import SWEPT, Departure, DepartureState
from meltline.domain.iceberg.locations import claim_prefix
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import format_duration, format_instant
from meltline.ports import Listing

_LOCK = "sweep"
_LEASE = timedelta(minutes=2)
_SHOWN = 20


@dataclass(frozen=True)
class SweptTable:
    """What a sweep found under a table's prefixes: files by what became of them."""

    table: TableName
    departed: int = 0
    departed_bytes: int = 0
    first_seen: int = 0
    seen_recently: int = 0
    young: int = 0


@dataclass(frozen=True)
class Swept:
    """What a sweep came to.

    Attributes:
        listed_at: When the listing began, or the inventory was written.
        files: How many files were listed.
        tables: Those with strays.
        reasons: Why a file stays although nothing refers to it, by path.
        observation: What the catalogs had.
        refused: Tables that were left out, and why.
        notes: What else was held back, and why.
        not_armed: Why no file departed, where all else is as if they had.
    """

    listed_at: datetime
    files: int
    tables: tuple[SweptTable, ...]
    reasons: Mapping[str, str]
    observation: Observation
    refused: Mapping[TableName, str]
    notes: Sequence[str]
    not_armed: NotArmed | None = None

    def as_json(self) -> dict[str, Any]:
        """What stands under `sweep` in the summary; of odd files a few."""
        return {
            "listed_at": format_instant(self.listed_at),
            "files": self.files,
            "tables": [{**vars(table), "table": str(table.table)} for table in self.tables],
            "odd_files": len(self.reasons),
            "odd": dict(list(self.reasons.items())[:_SHOWN]),
        }


def sweep(context: SweepServices, request: RunRequest) -> Swept:
    """Lists, observes, decides, records. A second sweep right away records nothing.

    Raises:
        UsageInvalid: The minimum age is too short, or the inventory too old or no inventory.
        LedgerOutOfStep: The ledger is not this catalog's.
        ClockRefused: The wall clock, by which ages count, disagrees with the store's.
        LockHeld: Another sweep is under way.
    """
    settings = context.config.sweep
    if request.minimum_age is not None:
        settings = replace(settings, minimum_age=request.minimum_age)
    require_generation(context)
    if not request.dry_run:
        require_clock(context)
    wait = context.config.limits.lock_wait
    holder = f"{context.who} run {request.run_id}"
    with context.control.locks.take(_LOCK, holder, wait=wait, lease=_LEASE):
        return _sweep(context, request, settings)


def _sweep(context: SweepServices, run: RunRequest, settings: SweepSettings) -> Swept:
    context.sweeper.prepare()
    places, unswept = places_to_sweep(context, run.tables)
    listing = _listing(context, run.inventory, places, settings)
    observation = observe(context)
    claims = Claims(context, observation, run.tables)
    context.progress("sweep: holding the listing against the file ledger")
    sifted = sift(context, observation, claims, places, listing)
    leave_foreign(context, observation, places, listing.markers, sifted)
    sifted.refused.update(unswept)
    judged = _judge(context, observation, places, listing, sifted, settings, run.inventory)
    held_back = _held_back(context, observation, listing)
    orphans = [] if held_back else judged.get(StrayVerdict.ORPHAN, [])
    not_armed = ArmingCheck.of(context).refusal()
    if not run.dry_run:
        context.sweeper.record(_sightings(judged.get(StrayVerdict.FIRST_SEEN, ()), listing))
        _record_departures(context, () if not_armed else orphans, run.run_id)
        _record_signs(context, places, claims, listing, sifted)
        if not run.tables:
            note_withheld(context.control.places, "sweep", list(sifted.withheld.values()))
    if held_back:
        judged = {v: candidates for v, candidates in judged.items() if v is not StrayVerdict.ORPHAN}
    return Swept(
        listed_at=listing.listed_at,
        files=listing.files,
        tables=_tables(judged),
        reasons=dict(sorted(sifted.reasons.items())),
        observation=observation,
        refused=sifted.refused,
        notes=[*held_back, *sifted.notes],
        not_armed=not_armed,
    )


def _record_signs(
    context: RunContext, places: SweptPlaces, claims: Claims, listing: Listing, sifted: Candidates
) -> None:
    """Remembers for purges what was found of other owners, in the folders that were looked at.

    A folder that was not listed whole, or of which nothing was judged, keeps its earlier signs. So
    do all while somebody could not be asked.
    """
    if sifted.signs is None:
        return
    unlisted = tuple(map(claim_prefix, listing.unlisted))
    looked_at = {
        prefix
        for prefix in places.swept
        if claims.on(f"{prefix}-").is_judged and not any(f.startswith(prefix) for f in unlisted)
    }
    seen = [seen_sign(prefix, listing.listed_at) for prefix in sorted(looked_at)]
    since = {sign.owner: sign.seen_at for sign in context.control.owners.signs()}
    signs = [
        replace(sign, seen_at=since.get(sign.owner, sign.seen_at))
        for sign in sifted.signs
        if sign.root in looked_at
    ]
    context.control.owners.save_signs(looked_at, [*signs, *seen])


def _listing(
    context: SweepServices,
    inventory: Inventory | None,
    places: SweptPlaces,
    settings: SweepSettings,
) -> Listing:
    """Lists the store, or takes an inventory of it that is neither old nor of a time to come."""
    now = context.clock.now()
    if inventory is None:
        context.progress(f"sweep: listing {len(places.roots)} places")
        return context.sweeper.list_files(places, now)
    context.progress(f"sweep: reading the inventory {inventory.source}")
    listing = context.sweeper.read_inventory(inventory, places)
    if not now - settings.inventory_age <= listing.listed_at <= now:
        raise UsageInvalid(
            f"the inventory {inventory.source} does not show the store as it is",
            object=inventory.source,
            expected=f"one of the last {format_duration(settings.inventory_age)}",
            found=f"one of {format_instant(listing.listed_at)}",
            next="take a newer one, or list the store by leaving it out",
        )
    return listing


def _held_back(context: RunContext, observation: Observation, listing: Listing) -> list[str]:
    """Why nothing departs at all today; what was seen is remembered all the same."""
    reasons = [
        f"nothing departs: {folder} could not be listed: {why}"
        for folder, why in sorted(listing.unlisted.items())
    ]
    if observation.purge_blocked:
        reasons.append(f"nothing departs: {observation.purge_blocked}")
    if context.control.switch.stopped() is not None:
        reasons.append("nothing departs: `meltline stop` is in force")
    return reasons


def _judge(
    context: SweepServices,
    observation: Observation,
    places: SweptPlaces,
    listing: Listing,
    sifted: Candidates,
    settings: SweepSettings,
    inventory: Inventory | None,
) -> dict[StrayVerdict, list[Candidate]]:
    seen = context.sweeper.sightings([candidate.stray for candidate in sifted.candidates])

    def verdict(candidate: Candidate) -> StrayVerdict:
        age = max(settings.minimum_age, candidate.claim.minimum_age)
        older = replace(settings, minimum_age=age)
        return verdict_on(candidate.stray, seen.get(candidate.path), listing.listed_at, older)

    orphans = [
        candidate for candidate in sifted.candidates if verdict(candidate) is StrayVerdict.ORPHAN
    ]
    leave_other_names(context.sweeper, places, orphans, sifted)
    leave_held_back(context, observation, orphans, sifted)
    if inventory is not None:
        sifted.keep(_not_as_listed(context, orphans))
    judged: dict[StrayVerdict, list[Candidate]] = {}
    for candidate in sifted.candidates:
        judged.setdefault(verdict(candidate), []).append(candidate)
    unfit = [candidate.path for candidate in judged.pop(StrayVerdict.ODD, ())]
    sifted.keep(dict.fromkeys(unfit, "its name, size or time is odd"))
    return judged


def _not_as_listed(context: RunContext, orphans: Sequence[Candidate]) -> dict[str, str]:
    """Files that the store no longer has as the inventory says."""
    sizes = load_concurrently(lambda candidate: context.store.size(candidate.path), orphans)
    return {
        candidate.path: f"the store has {'none' if size is None else f'{size} B'} of it now"
        for candidate, size in zip(orphans, sizes, strict=True)
        if size != candidate.stray.bytes
    }


def _sightings(candidates: Sequence[Candidate], listing: Listing) -> list[OrphanObservation]:
    return [
        OrphanObservation(
            candidate.path,
            candidate.stray.bytes,
            candidate.stray.modified_at,
            candidate.owner.uuid,
            listing.listed_at,
        )
        for candidate in candidates
        if candidate.stray.bytes is not None and candidate.stray.modified_at is not None
    ]


def _record_departures(context: RunContext, orphans: Sequence[Candidate], run_id: str) -> None:
    if not orphans:
        return
    now, plan_id = context.clock.now(), f"{SWEPT}{run_id}"
    departures = [
        Departure(
            path=candidate.path,
            kind=kind_of(candidate.path),
            bytes=candidate.stray.bytes or 0,
            owner=candidate.owner.uuid,
            plan_id=plan_id,
            departed_at=now,
            due_at=now + candidate.claim.failsafe,
            state=DepartureState.FAILSAFE,
            recorded_at=now,
        )
        for candidate in orphans
    ]
    # A marker of its own each time: the same run may be run again, weeks later.
    context.files.departures.record({f"{plan_id}-{uuid4()}": departures})
    paths = sorted(departure.path for departure in departures)
    detail = "\n".join(paths[:100])
    audit(context, "sweep", f"{len(paths)} files", "nothing refers to them", detail)


def _tables(judged: Mapping[StrayVerdict, Sequence[Candidate]]) -> tuple[SweptTable, ...]:
    tables: dict[TableName, Counter[str]] = {}
    for verdict, candidates in judged.items():
        for candidate in candidates:
            counts = tables.setdefault(candidate.owner.name, Counter())
            counts[verdict] += 1
            if verdict is StrayVerdict.ORPHAN:
                counts["bytes"] += candidate.stray.bytes or 0
    return tuple(
        SweptTable(
            table=name,
            departed=counts[StrayVerdict.ORPHAN],
            departed_bytes=counts["bytes"],
            first_seen=counts[StrayVerdict.FIRST_SEEN],
            seen_recently=counts[StrayVerdict.SEEN_RECENTLY],
            young=counts[StrayVerdict.YOUNG],
        )
        for name, counts in sorted(tables.items())
    )
