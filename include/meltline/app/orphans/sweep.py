"""Sweep: lists files, and records those that nothing references as departures in failsafe.

A run's sweep step calls it; nothing is deleted here. The order makes it safe (AR-16): first the
store is listed, then all metadata is read, then files are classified. A file that was committed in
between is therefore known. Foreign owners of files that commits have referenced are in
`ownership/foreign_owners`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from meltline.app.catalog.metadata import load_concurrently
from meltline.app.observe.held_back import note_withheld
from meltline.app.observe.observe import Observation, observe
from meltline.app.orphans.orphan_candidates import (
    Candidate,
    Candidates,
    leave_held_back,
    leave_other_names,
    sift,
)
from meltline.app.orphans.scan_roots import Claims, FolderClaim, places_to_sweep
from meltline.app.ownership.foreign_owners import (
    VIEWS,
    Uuids,
    metadata_signs,
    not_allowed,
    read_uuids,
    seen_sign,
    table_folder,
    uuids_by_root,
)
from meltline.app.run_request import RunRequest
from meltline.app.safety.arming import ArmingCheck
from meltline.app.safety.audit import audit
from meltline.app.safety.preconditions import require_clock, require_generation
from meltline.app.services import RunContext, SweepServices
from meltline.domain.deletion.foreign_owners import (
    ForeignSign,
    SignKind,
    format_of_file,
    marker_of,
    tells_owner,
)
from meltline.domain.deletion.orphans import (
    Inventory,
    OrphanObservation,
    StrayVerdict,
    SweepSettings,
    SweptPlaces,
    kind_of,
    verdict_on,
)
from meltline.domain.errors import CatalogUnlistable, NotArmed, UsageInvalid
from meltline.domain.iceberg.files import SWEPT, Departure, DepartureState
from meltline.domain.iceberg.locations import claim_prefix, location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import format_duration, format_instant
from meltline.ports import ControlLedger, Listing, OtherOwner

_LOCK = "sweep"
_LEASE = timedelta(minutes=2)
_SHOWN = 20


@dataclass(frozen=True)
class SweptTable:
    """Files that a sweep found under a table's prefixes, by verdict."""

    table: TableName
    departed: int = 0
    departed_bytes: int = 0
    first_seen: int = 0
    seen_recently: int = 0
    young: int = 0


@dataclass(frozen=True)
class Swept:
    """Result of a sweep.

    Attributes:
        listed_at: When the listing began, or the inventory was written.
        files: Number of listed files.
        tables: Tables with orphan candidates.
        reasons: Why a file stays although nothing references it, by path.
        observation: The observed catalogs.
        refused: Tables that were left out, and why.
        notes: Other exclusions, and why.
        not_armed: Why no file departed, if that is the only reason.
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
        """Returns `sweep` of the summary, with a few of the implausible files."""
        return {
            "listed_at": format_instant(self.listed_at),
            "files": self.files,
            "tables": [{**vars(table), "table": str(table.table)} for table in self.tables],
            "odd_files": len(self.reasons),
            "odd": dict(list(self.reasons.items())[:_SHOWN]),
        }


def sweep(context: SweepServices, request: RunRequest) -> Swept:
    """Lists, observes, classifies, records. A second sweep right away records nothing.

    Raises:
        UsageInvalid: The minimum age is too short, or the inventory is invalid or too old.
        LedgerOutOfStep: The ledger is not this catalog's.
        ClockRefused: The wall clock, which determines ages, disagrees with the store's.
        LockHeld: Another sweep is in progress.
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
        _record_signs(context.control, places, claims, listing, sifted)
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
    control: ControlLedger,
    places: SweptPlaces,
    claims: Claims,
    listing: Listing,
    sifted: Candidates,
) -> None:
    """Records signs of foreign owners in the folders that were checked, for later purges.

    A folder that was not listed completely, or was not evaluated, keeps its earlier signs. All do
    if a catalog could not be asked.
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
    since = {sign.owner: sign.seen_at for sign in control.owners.signs()}
    signs = [
        replace(sign, seen_at=since.get(sign.owner, sign.seen_at))
        for sign in sifted.signs
        if sign.root in looked_at
    ]
    control.owners.save_signs(looked_at, [*signs, *seen])


def _listing(
    context: SweepServices,
    inventory: Inventory | None,
    places: SweptPlaces,
    settings: SweepSettings,
) -> Listing:
    """Lists the store, or reads an inventory that is neither too old nor from the future."""
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
    """Returns why no departure is recorded today; observations are recorded nevertheless."""
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
    """Returns files that the store no longer has as in the inventory."""
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
    # A new marker each time: the same run may be repeated weeks later.
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


def leave_foreign(
    context: RunContext,
    observation: Observation,
    places: SweptPlaces,
    markers: Sequence[str],
    sifted: Candidates,
) -> None:
    """Blocks each folder with a sign of a foreign owner, and records the signs.

    If a catalog cannot be listed, no departure is recorded anyway, but observations are. If only
    its views cannot be listed, not even observations are recorded.
    """
    now = context.clock.now()
    catalogs = [c for name, c in context.catalogs.items() if name in observation.listings]
    try:
        rows = [row for catalog in catalogs for row in catalog.other_owners()]
    except CatalogUnlistable as refused:
        sifted.candidates.clear()
        sifted.notes.append(f"nothing departs: {refused.message}: {refused.found}")
        return
    claims = {c.path: c.claim for c in sifted.candidates if tells_owner(c.path)}
    current = {row.metadata_location for row in rows if row.metadata_location and not row.uuid}
    uuids = read_uuids(context.store, {*claims, *current})
    owners = [_ListedOwner.of(row, uuids) for row in rows]
    _leave_listed(sifted, places, owners, uuids)
    left = {candidate.path for candidate in sifted.candidates}
    unlisted = {path: uuid for path, uuid in uuids.items() if path in left}
    known = uuids_by_root(context.control.registrations)
    signs = [
        *_of_markers(places, markers, now),
        *_of_files(places, sifted.candidates, now),
        *_of_metadata(observation, places, claims, unlisted, known, now),
        *_of_listed(places, owners, now),
    ]
    sifted.stop(not_allowed(signs, context.control.owners.allowed()), places)
    sifted.keep(sifted.doubtful)
    if len(catalogs) == len(context.catalogs):
        sifted.signs = list(dict.fromkeys(signs))


@dataclass(frozen=True)
class _ListedOwner:
    """A view, or a table of another format, that a catalog lists.

    Attributes:
        row: The catalog's entry.
        folder: Its folder, as a prefix; empty if unknown.
        uuid: Its UUID; empty if unknown.
    """

    row: OtherOwner
    folder: str
    uuid: str

    @classmethod
    def of(cls, row: OtherOwner, uuids: Uuids) -> "_ListedOwner":
        """Builds it, and reads from its metadata what the catalog does not have."""
        at, location = row.metadata_location, row.location
        uuid = row.uuid or uuids.get(at, (SignKind.UNREADABLE, ""))[1]
        folder = claim_prefix(location) if location else table_folder(at) if at else ""
        return cls(row, folder, uuid)

    @property
    def is_view(self) -> bool:
        """Whether it is a view: its only files are metadata, with its UUID."""
        return self.row.kind in VIEWS

    @property
    def reason(self) -> str:
        """The reason to keep its files."""
        return f"{self.row.kind} {self.row.name} lies there"


def _leave_listed(
    sifted: Candidates, places: SweptPlaces, owners: Sequence[_ListedOwner], uuids: Uuids
) -> None:
    """Excludes files of listed views, and files in another owner's folder inside a table's."""
    by_uuid = {owner.uuid: owner for owner in owners if owner.uuid and owner.is_view}
    folders = {o.folder: o for o in owners if places.prefix_of(o.folder) not in ("", o.folder)}
    nested = SweptPlaces(folders)
    reasons: dict[str, str] = {}
    for candidate in sifted.candidates:
        path = candidate.path
        around = folders.get(nested.prefix_of(path.rpartition("/")[0]))
        _, uuid = uuids.get(path, (SignKind.UNREADABLE, ""))
        if owner := by_uuid.get(uuid) or around:
            reasons[path] = owner.reason
    sifted.keep(reasons)


def _of_markers(
    places: SweptPlaces, markers: Iterable[str], now: datetime
) -> Iterator[ForeignSign]:
    for marker in markers:
        folder = claim_prefix(marker.rstrip("/").rpartition("/")[0])
        root, kind = places.prefix_of(folder), marker_of(marker)
        if root and kind:
            yield ForeignSign(root, marker, kind, marker, folder, now)


def _of_files(
    places: SweptPlaces, candidates: Iterable[Candidate], now: datetime
) -> Iterator[ForeignSign]:
    """Yields signs for files with names of other formats; one per folder."""
    seen: set[tuple[SignKind, str]] = set()
    for candidate in candidates:
        table = format_of_file(candidate.path)
        if table and table not in seen:
            seen.add(table)
            kind, folder = table
            root = places.prefix_of(candidate.path.rpartition("/")[0])
            yield ForeignSign(root, folder, kind, candidate.path, folder, now)


def _of_metadata(
    observation: Observation,
    places: SweptPlaces,
    claims: Mapping[str, FolderClaim],
    uuids: Uuids,
    known: Mapping[str, Collection[str]],
    now: datetime,
) -> Iterator[ForeignSign]:
    """Yields signs for metadata files that no current table of ours can have written there."""
    roots = {path: places.prefix_of(path.rpartition("/")[0]) for path in uuids}
    folders = _metadata_folders(observation)

    def is_known(path: str, uuid: str) -> bool:
        folder = location_key(path.rpartition("/")[0])
        return uuid in claims[path].table_uuids and folder in folders

    for sign in metadata_signs(uuids, roots, is_known, now):
        is_ours = sign.id in claims[sign.path].table_uuids
        has_left = not is_ours and sign.id in known.get(sign.root, ())
        yield replace(sign, kind=SignKind.ENDED) if has_left else sign


def _metadata_folders(observation: Observation) -> frozenset[str]:
    """Returns where known tables have, or would have, their metadata files, as location keys."""
    folders: set[str] = set()
    for table in observation.tables:
        state = table.state
        files = (state.metadata_location, *state.metadata_log)
        folders |= {path.rpartition("/")[0] for path in files}
        folders |= {f"{place.rstrip('/')}/metadata" for place in state.owned_locations}
        folders.add(state.properties.get("write.metadata.path", state.location))
    return frozenset(map(location_key, folders))


def _of_listed(
    places: SweptPlaces, owners: Iterable[_ListedOwner], now: datetime
) -> Iterator[ForeignSign]:
    """Yields signs for tables of other formats at or above the folder of a table of ours."""
    for owner in owners:
        for root in places.swept if owner.folder and not owner.is_view else ():
            if root.startswith(owner.folder):
                name = str(owner.row.name)
                yield ForeignSign(root, name, SignKind.OTHER_FORMAT, name, owner.folder, now)
