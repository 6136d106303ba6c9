"""Foreign owners: what shows that somebody whom no catalog shows uses a table's folder.

Sweeps look at all that they list. A purge takes the last sweep's findings and looks at the top of
each folder once more; a folder that no sweep has seen gets a first look of its own. Its gate does
the same by itself.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from meltline.app.catalog.metadata import load_concurrently
from meltline.app.ownership.roots import outside_tables
from meltline.app.services import RunContext
from meltline.domain.deletion.foreign_owners import (
    AllowedOwner,
    ForeignSign,
    SignKind,
    marker_of,
    tells_owner,
)
from meltline.domain.deletion.orphans import parent_prefix
from meltline.domain.errors import CatalogUnlistable, MeltlineError
from meltline.domain.iceberg.locations import OwnerIndex, Ownership, claim_prefix
from meltline.domain.iceberg.metadata_editor import parse_json
from meltline.domain.iceberg.names import TableName
from meltline.domain.path_aliases import data_set_of
from meltline.ports import (
    FolderReader,
    ForeignOwnerReader,
    KnownTable,
    ObjectReader,
    OtherOwner,
    RegistrationReader,
)

VIEWS = ("view", "materialized view")
_NAMELESS = TableName("", (), "")


Uuids = Mapping[str, tuple[SignKind, str]]
"""By path of a metadata file: a table's or a view's, or unreadable; and the UUID in it."""


def read_uuids(store: ObjectReader, paths: Iterable[str]) -> Uuids:
    """Reads metadata files of tables and views; those that are gone by now are absent.

    A file that cannot be read has its path for a UUID: by that a person allows it.
    """
    asked = sorted(paths)
    answers = load_concurrently(lambda path: _uuid_of(store, path), asked)
    return {path: uuid for path, uuid in zip(asked, answers, strict=True) if uuid is not None}


def _uuid_of(store: ObjectReader, path: str) -> tuple[SignKind, str] | None:
    try:
        document: Any = parse_json(_NAMELESS, path, store.read(path))
    except FileNotFoundError:
        return None
    except (MeltlineError, OSError):
        return SignKind.UNREADABLE, path
    fields = document if isinstance(document, dict) else {}
    if uuid := fields.get("table-uuid"):
        return SignKind.TABLE, str(uuid)
    if uuid := fields.get("view-uuid"):
        return SignKind.VIEW, str(uuid)
    return SignKind.UNREADABLE, path


def metadata_signs(
    uuids: Uuids, roots: Mapping[str, str], is_known: Callable[[str, str], bool], now: datetime
) -> list[ForeignSign]:
    """The metadata files that no known table has written, one of each owner.

    Args:
        uuids: Metadata files that no table names.
        roots: The root of each, by path.
        is_known: Whether a path and a UUID are those of a table that is known there.
        now: When they were found.
    """
    signs = [
        ForeignSign(roots[path], uuid, kind, path, table_folder(path), now)
        for path, (kind, uuid) in uuids.items()
        if not is_known(path, uuid)
    ]
    return list({(sign.root, sign.folder, sign.id): sign for sign in signs}.values())


def table_folder(metadata_path: str) -> str:
    """The folder of the table that a metadata file belongs to, as a prefix."""
    return claim_prefix(metadata_path.rpartition("/")[0].removesuffix("/metadata"))


def not_allowed(signs: Iterable[ForeignSign], allowed: Sequence[AllowedOwner]) -> list[ForeignSign]:
    """Signs of owners of which no person has said that they are gone."""
    ids = {owner.id for owner in allowed}
    return [sign for sign in signs if sign.id not in ids and sign.kind is not SignKind.SEEN]


@dataclass(frozen=True)
class NamedFiles:
    """Whether files that commits of ours have named may be needed by foreign owners; reads only.

    Attributes:
        folders: Lists the top of a folder.
        ledger: What the last look at each folder found.
        now: When it is asked.
        storage_roots: Where files may go that lie in no table's folder.
    """

    folders: FolderReader
    ledger: ForeignOwnerReader
    now: datetime
    storage_roots: Sequence[str] = ()

    @classmethod
    def of(cls, context: RunContext) -> "NamedFiles":
        """By what a step has."""
        roots = context.config.storage_roots
        return cls(context.folders, context.control.owners, context.clock.now(), roots)

    def places_of(self, owners: OwnerIndex, paths: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Finds the folders in which other owners of some files may leave signs, by path.

        For a file in a table's folder that is this folder. For any other it is the folder of its
        data set and those above, up to the storage root: any may hold the log of another format.
        """
        given = tuple(map(claim_prefix, self.storage_roots))
        return {
            path: [prefix] if (prefix := owners.prefix_of(path)) else _around(path, given)
            for path in paths
        }

    def contested(
        self, roots: Collection[str], first: Sequence[ForeignSign] = ()
    ) -> Mapping[str, str]:
        """Those of some roots from which nothing may be purged, and why.

        Args:
            roots: Folders of tables, as prefixes.
            first: What a first look has found that is not stored yet.
        """
        signs = [*self.ledger.signs(), *first]
        seen = {sign.root for sign in signs if sign.kind is SignKind.SEEN}
        earlier = [sign for sign in signs if sign.root in roots and sign.stops_named_files]
        asked = sorted(seen.intersection(roots))
        tonight = dict(zip(asked, load_concurrently(self._markers, asked), strict=True))
        unsure = {root for root in roots if tonight.get(root) is None}
        stopping = [*earlier, *chain.from_iterable(signs for signs in tonight.values() if signs)]
        reasons = {s.root: s.message for s in not_allowed(stopping, self.ledger.allowed())}
        return reasons | dict.fromkeys(unsure, "it was never looked at, or cannot be listed now")

    def _markers(self, root: str) -> list[ForeignSign] | None:
        """Logs of other formats right in a folder; None where it cannot be listed."""
        try:
            folders = self.folders.level(root).folders
        except (MeltlineError, OSError):
            return None
        return [sign for sign in marker_signs(root, folders, self.now) if sign.stops_named_files]


def contested_paths(
    check: NamedFiles,
    owners: OwnerIndex,
    paths: Sequence[str],
    first: Sequence[ForeignSign] = (),
) -> dict[str, str]:
    """Those of some files that owners may need whom no catalog shows, and who, by path.

    Args:
        check: What looks for such owners.
        owners: Which tables own which folders.
        paths: The files.
        first: What a first look has found that is not stored yet.
    """
    roots = check.places_of(owners, paths)
    contested = check.contested(set(chain(*roots.values())), first)
    reasons = {
        path: next(contested[folder] for folder in folders if folder in contested)
        for path, folders in roots.items()
        if not contested.keys().isdisjoint(folders)
    }
    strays = outside_tables(owners, check.storage_roots, paths)
    return reasons | dict.fromkeys(strays, "it lies in no table's folder, and in no storage root")


def _around(path: str, given: tuple[str, ...]) -> list[str]:
    """The folder of a file's data set, and those above it that lie in one of the given roots."""
    places = [data_set_of(path)]
    while (above := parent_prefix(places[-1])).startswith(given):
        places.append(above)
    return places


def marker_signs(root: str, folders: Iterable[str], now: datetime) -> list[ForeignSign]:
    """The signs that folders right below a table's folder are; `root` is the swept folder."""
    return [
        ForeignSign(root, folder, kind, folder, _parent_of(folder), now)
        for folder in folders
        if (kind := marker_of(folder))
    ]


def _parent_of(folder: str) -> str:
    return claim_prefix(folder.rstrip("/").rpartition("/")[0])


def first_look(context: RunContext, roots: Collection[str]) -> list[ForeignSign]:
    """Looks at folders that no sweep has seen, before the first purge there.

    Reads the metadata files right in each that no table of ours names; of those that are no
    table's it asks the catalogs for tables of other formats, as no sweep will. Returns what was
    found, `SignKind.SEEN` for each folder among it; one that cannot be looked at is left out.
    """
    seen = {sign.root for sign in context.control.owners.signs() if sign.kind is SignKind.SEEN}
    new = sorted(set(roots) - seen - {""})
    if not new:
        return []
    owned = {ownership.prefix for ownership in context.control.registrations.ownerships()}
    strange = set(new) - owned
    rows = _other_owners(context) if strange else ()
    if rows is None:
        new, rows = sorted(owned.intersection(new)), ()
    answers = load_concurrently(lambda root: _metadata_in(context.folders, root), new)
    listed = {root: paths for root, paths in zip(new, answers, strict=True) if paths is not None}
    now = context.clock.now()
    return [
        *_unnamed_metadata(context, listed, now),
        *listed_signs(strange & listed.keys(), rows, now),
        *(seen_sign(root, now) for root in listed),
    ]


def _unnamed_metadata(
    context: RunContext, listed: Mapping[str, Iterable[str]], now: datetime
) -> list[ForeignSign]:
    """Signs of other owners: metadata files in some folders that no table of ours names."""
    by_path = {path: root for root, paths in listed.items() for path in paths}
    unknown = context.files.references.unknown(sorted(by_path)) if by_path else set()
    known = uuids_by_root(context.control.registrations)
    return metadata_signs(
        read_uuids(context.store, unknown),
        by_path,
        lambda path, uuid: uuid in known.get(by_path[path], ()),
        now,
    )


def _other_owners(context: RunContext) -> Sequence[OtherOwner] | None:
    """What the catalogs have beside tables of ours; None where one does not say."""
    try:
        return [row for catalog in context.catalogs.values() for row in catalog.other_owners()]
    except CatalogUnlistable:
        return None


def listed_signs(
    roots: Iterable[str], rows: Iterable[OtherOwner], now: datetime
) -> list[ForeignSign]:
    """Signs of other owners: tables of other formats that catalogs list at or above a folder."""
    folders = [
        (claim_prefix(row.location), str(row.name))
        for row in rows
        if row.location and row.kind not in VIEWS
    ]
    return [
        ForeignSign(root, name, SignKind.OTHER_FORMAT, name, folder, now)
        for root in roots
        for folder, name in folders
        if root.startswith(folder)
    ]


def _metadata_in(folders: FolderReader, root: str) -> list[str] | None:
    """The metadata files at the top of a table's folder; None where it cannot be listed."""
    try:
        below = f"{root}metadata/"
        paths = [*folders.level(root).paths(root), *folders.level(below).paths(below)]
    except (MeltlineError, OSError):
        return None
    return [path for path in paths if tells_owner(path)]


def seen_sign(root: str, now: datetime) -> ForeignSign:
    """That a folder was looked at."""
    return ForeignSign(root, "", SignKind.SEEN, "", root, now)


def uuids_by_root(registrations: RegistrationReader) -> dict[str, set[str]]:
    """Iceberg's UUIDs of all tables that own a folder, or ever did, by folder."""
    rows: Sequence[KnownTable] = registrations.all()
    ownerships: Sequence[Ownership] = registrations.ownerships()
    table_uuids: dict[str, set[str]] = {}
    for row in rows:
        table_uuids.setdefault(row.uuid, set()).add(row.table_uuid)
    by_root: dict[str, set[str]] = {}
    for owned in ownerships:
        by_root.setdefault(owned.prefix, set()).update(table_uuids.get(owned.table_uuid, ()))
    return by_root
