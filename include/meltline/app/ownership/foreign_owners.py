"""Foreign owners: detects signs that an owner outside all catalogs uses a table's folder.

Sweeps check all that they list. A purge uses the last sweep's findings and lists the top of each
folder again. A folder that was never swept gets a first check of its own. The gate of the purge
does the same independently.
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
"""Kind (table, view, unreadable) and UUID of each metadata file, by path."""


def read_uuids(store: ObjectReader, paths: Iterable[str]) -> Uuids:
    """Reads metadata files of tables and views; those that are gone are omitted.

    A file that cannot be read has its path as UUID: an operator can allow it by that.
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
    """Returns signs for metadata files that no known table has written, one for each owner.

    Args:
        uuids: Metadata files that no table references.
        roots: The root of each, by path.
        is_known: Whether a path and a UUID are those of a known table there.
        now: When they were found.
    """
    signs = [
        ForeignSign(roots[path], uuid, kind, path, table_folder(path), now)
        for path, (kind, uuid) in uuids.items()
        if not is_known(path, uuid)
    ]
    return list({(sign.root, sign.folder, sign.id): sign for sign in signs}.values())


def table_folder(metadata_path: str) -> str:
    """Returns the folder of the table that a metadata file belongs to, as a prefix."""
    return claim_prefix(metadata_path.rpartition("/")[0].removesuffix("/metadata"))


def not_allowed(signs: Iterable[ForeignSign], allowed: Sequence[AllowedOwner]) -> list[ForeignSign]:
    """Returns signs of owners that no operator has allowed."""
    ids = {owner.id for owner in allowed}
    return [sign for sign in signs if sign.id not in ids and sign.kind is not SignKind.SEEN]


@dataclass(frozen=True)
class NamedFiles:
    """Checks whether foreign owners may need files that commits of ours have referenced; read-only.

    Attributes:
        folders: Lists the top of a folder.
        ledger: Has the findings of the last check of each folder.
        now: The time of the check.
        storage_roots: Where files outside all tables' folders may be deleted.
    """

    folders: FolderReader
    ledger: ForeignOwnerReader
    now: datetime
    storage_roots: Sequence[str] = ()

    @classmethod
    def of(cls, context: RunContext) -> "NamedFiles":
        """Builds it with the ports of a step."""
        roots = context.config.storage_roots
        return cls(context.folders, context.control.owners, context.clock.now(), roots)

    def places_of(self, owners: OwnerIndex, paths: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Returns the folders in which other owners of some files may leave signs, by path.

        For a file in a table's folder it is this folder. For any other file it is the folder of its
        data set and those above, up to the storage root: any may have the log of another format.
        """
        given = tuple(map(claim_prefix, self.storage_roots))
        return {
            path: [prefix] if (prefix := owners.prefix_of(path)) else _around(path, given)
            for path in paths
        }

    def contested(
        self, roots: Collection[str], first: Sequence[ForeignSign] = ()
    ) -> Mapping[str, str]:
        """Returns roots from which nothing may be purged, and why.

        Args:
            roots: Folders of tables, as prefixes.
            first: Findings of a first check that are not stored yet.
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
        """Returns logs of other formats directly in a folder; None if it cannot be listed."""
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
    """Returns files that foreign owners may need, with the owner, by path.

    Args:
        check: Searches for such owners.
        owners: Which tables own which folders.
        paths: The files.
        first: Findings of a first check that are not stored yet.
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
    """Returns the folder of a file's data set, and its outer folders within the given roots."""
    places = [data_set_of(path)]
    while (above := parent_prefix(places[-1])).startswith(given):
        places.append(above)
    return places


def marker_signs(root: str, folders: Iterable[str], now: datetime) -> list[ForeignSign]:
    """Returns signs for folders directly below a table's folder; `root` is the swept folder."""
    return [
        ForeignSign(root, folder, kind, folder, _parent_of(folder), now)
        for folder in folders
        if (kind := marker_of(folder))
    ]


def _parent_of(folder: str) -> str:
    return claim_prefix(folder.rstrip("/").rpartition("/")[0])


def first_look(context: RunContext, roots: Collection[str]) -> list[ForeignSign]:
    """Checks folders that were never swept, before the first purge there.

    It reads the metadata files at the top of each that no table of ours references. For folders
    that no table owns, it also asks the catalogs for tables of other formats, because no sweep
    will. Returns the signs, with a `SignKind.SEEN` for each folder; one that cannot be checked is
    omitted.
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
    """Returns signs for metadata files in some folders that no table of ours references."""
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
    """Returns the owners in all catalogs that are not tables of ours; None if one cannot say."""
    try:
        return [row for catalog in context.catalogs.values() for row in catalog.other_owners()]
    except CatalogUnlistable:
        return None


def listed_signs(
    roots: Iterable[str], rows: Iterable[OtherOwner], now: datetime
) -> list[ForeignSign]:
    """Returns signs for tables of other formats that catalogs list at or above a folder."""
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
    """Returns the metadata files at the top of a table's folder; None if it cannot be listed."""
    try:
        below = f"{root}metadata/"
        paths = [*folders.level(root).paths(root), *folders.level(below).paths(below)]
    except (MeltlineError, OSError):
        return None
    return [path for path in paths if tells_owner(path)]


def seen_sign(root: str, now: datetime) -> ForeignSign:
    """Returns the sign that a folder was checked."""
    return ForeignSign(root, "", SignKind.SEEN, "", root, now)


def uuids_by_root(registrations: RegistrationReader) -> dict[str, set[str]]:
    """Returns Iceberg's UUIDs of all tables that own a folder, or ever did, by folder."""
    rows: Sequence[KnownTable] = registrations.all()
    ownerships: Sequence[Ownership] = registrations.ownerships()
    table_uuids: dict[str, set[str]] = {}
    for row in rows:
        table_uuids.setdefault(row.uuid, set()).add(row.table_uuid)
    by_root: dict[str, set[str]] = {}
    for owned in ownerships:
        by_root.setdefault(owned.prefix, set()).update(table_uuids.get(owned.table_uuid, ()))
    return by_root
