"""Foreign claims: takes out of a sweep what an owner may need whom no catalog shows.

Called by `sweep`, once it is known which files no table names. What the signs mean for files that
commits have named is in `safety/foreign_owners`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.app.observe.observe import Observation
from meltline.app.orphans.orphan_candidates import Candidate, Candidates
from meltline.app.orphans.scan_roots import Claim
from meltline.app.ownership.foreign_owners import (
    VIEWS,
    Uuids,
    metadata_signs,
    not_allowed,
    read_uuids,
    table_folder,
    uuids_by_root,
)
from meltline.app.services import RunContext
from meltline.domain.deletion.foreign_owners import (
    ForeignSign,
    SignKind,
    format_of_file,
    marker_of,
    tells_owner,
)
from meltline.domain.deletion.orphans import SweptPlaces
from meltline.domain.errors import CatalogUnlistable
from meltline.domain.iceberg.locations import claim_prefix, location_key
from meltline.ports import OtherOwner


def leave_foreign(
    context: RunContext,
    observation: Observation,
    places: SweptPlaces,
    markers: Sequence[str],
    sifted: Candidates,
) -> None:
    """Stops each folder in which a foreign owner shows, and notes the signs.

    While a catalog cannot be listed, nothing departs anyway: what is seen is remembered. Where its
    views alone cannot be listed, nothing is even remembered.
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
        row: As the catalog has it.
        folder: What it owns, as a prefix; empty where nothing says so.
        uuid: Its UUID; empty for none.
    """

    row: OtherOwner
    folder: str
    uuid: str

    @classmethod
    def of(cls, row: OtherOwner, uuids: Uuids) -> "_ListedOwner":
        """Takes from its metadata what the catalog does not say."""
        at, location = row.metadata_location, row.location
        uuid = row.uuid or uuids.get(at, (SignKind.UNREADABLE, ""))[1]
        folder = claim_prefix(location) if location else table_folder(at) if at else ""
        return cls(row, folder, uuid)

    @property
    def is_view(self) -> bool:
        """Whether it is one: its files are metadata alone, and carry its UUID."""
        return self.row.kind in VIEWS

    @property
    def reason(self) -> str:
        """Why its files stay."""
        return f"{self.row.kind} {self.row.name} lies there"


def _leave_listed(
    sifted: Candidates, places: SweptPlaces, owners: Sequence[_ListedOwner], uuids: Uuids
) -> None:
    """Keeps what a catalog says is a view's, or lies in an owner's folder inside of a table's."""
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
    """Files that other formats write under names of their own: one of each folder is enough."""
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
    claims: Mapping[str, Claim],
    uuids: Uuids,
    known: Mapping[str, Collection[str]],
    now: datetime,
) -> Iterator[ForeignSign]:
    """Metadata files that no table of ours that is there has written where it writes them."""
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
    """Where known tables keep, or would keep, their metadata files, as keys."""
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
    """Tables of other formats that own the folder of a table of ours, or one around it."""
    for owner in owners:
        for root in places.swept if owner.folder and not owner.is_view else ():
            if root.startswith(owner.folder):
                name = str(owner.row.name)
                yield ForeignSign(root, name, SignKind.OTHER_FORMAT, name, owner.folder, now)
