"""Foreign claims: takes out of a sweep what an owner may need whom no catalog shows.

Called by `sweep`, once it is known which files no table names. What the signs mean for files that
commits have named is in `safety/foreign_owners`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.app.catalog.metadata import load_concurrently
from meltline.app.observe.observe import Observation
from meltline.app.orphans.orphan_candidates import Candidate, Candidates
from meltline.app.safety.foreign_owners import (
    metadata_signs,
    not_allowed,
    table_folder,
    uuid_of,
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
from meltline.domain.deletion.orphans import SweptPlaces, is_below
from meltline.domain.errors import CatalogUnlistable
from meltline.domain.iceberg.locations import claim_prefix, location_key
from meltline.ports import ObjectReader, OtherOwner

_VIEWS = ("view", "materialized view")


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
    owners = [_ListedOwner.of(context.store, row) for row in rows]
    _leave_listed(sifted, places, owners, _views_among(context.store, sifted.candidates))
    signs = [
        *_of_markers(places, markers, now),
        *_of_files(places, sifted.candidates, now),
        *_of_metadata(context, observation, places, sifted.candidates),
        *_of_listed(places, owners, now),
    ]
    sifted.signs = list(dict.fromkeys(signs))
    for sign in not_allowed(sifted.signs, context.control.owners.allowed()):
        sifted.stop(sign, places)


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
    def of(cls, store: ObjectReader, row: OtherOwner) -> "_ListedOwner":
        """Reads its metadata for what the catalog does not say."""
        at, location, uuid = row.metadata_location, row.location, row.uuid
        if at and not uuid:
            uuid = uuid_of(store, at)[1]
        folder = claim_prefix(location) if location else table_folder(at) if at else ""
        return cls(row, folder, uuid)

    @property
    def is_view(self) -> bool:
        """Whether it is one: its files are metadata alone, and carry its UUID."""
        return self.row.kind in _VIEWS

    @property
    def reason(self) -> str:
        """Why its files stay."""
        return f"{self.row.kind} {self.row.name} lies there"


def _views_among(store: ObjectReader, candidates: Iterable[Candidate]) -> Mapping[str, str]:
    """The UUIDs of views whose metadata files are among the candidates, by path."""
    paths = [candidate.path for candidate in candidates if tells_owner(candidate.path)]
    answers = load_concurrently(lambda path: uuid_of(store, path), paths)
    uuids = dict(zip(paths, answers, strict=True))
    return {path: uuid for path, (kind, uuid) in uuids.items() if kind is SignKind.VIEW}


def _leave_listed(
    sifted: Candidates,
    places: SweptPlaces,
    owners: Sequence[_ListedOwner],
    views: Mapping[str, str],
) -> None:
    """Keeps what a catalog says is a view's, or lies in an owner's folder inside of a table's."""
    by_uuid = {owner.uuid: owner for owner in owners if owner.uuid}
    nested = [o for o in owners if o.folder and places.prefix_of(o.folder) not in ("", o.folder)]
    reasons: dict[str, str] = {}
    for candidate in sifted.candidates:
        path = candidate.path
        around = next((owner for owner in nested if is_below(path, [owner.folder])), None)
        if owner := by_uuid.get(views.get(path, "")) or around:
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
    context: RunContext,
    observation: Observation,
    places: SweptPlaces,
    candidates: Sequence[Candidate],
) -> Iterator[ForeignSign]:
    """Metadata files that no table of ours that is there has written where it writes them."""
    claims = {c.path: c.claim for c in candidates if tells_owner(c.path)}
    roots = {path: places.prefix_of(path.rpartition("/")[0]) for path in claims}
    known_folders = _metadata_folders(observation)

    def is_known(path: str, kind: SignKind, uuid: str) -> bool:
        folder = location_key(path.rpartition("/")[0])
        return uuid in claims[path].table_uuids and folder in known_folders

    uuids = uuids_by_root(context.control.registrations)
    for sign in metadata_signs(context.store, roots, is_known, context.clock.now()):
        claim = claims[sign.path]
        has_left = sign.id in uuids.get(sign.root, ()) and sign.id not in claim.table_uuids
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
