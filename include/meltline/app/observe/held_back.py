"""Withheld files: unreferenced, but kept because they are outside the roots or may be needed.

The planners of expirations, purges and sweeps ask it which files to leave out. Gates check the same
again.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from meltline.app.observe.observe import Observation
from meltline.app.observe.recording import side_files_of
from meltline.app.ownership.confinement import Confinement
from meltline.app.ownership.half_seen import half_seen_notices, lying_in, remembered_places
from meltline.app.ownership.path_aliases import OtherNames, needed_by_other_names
from meltline.app.ownership.roots import outside_tables_now
from meltline.app.services import ReadContext, RunContext
from meltline.domain.deletion.withheld import Why, Withheld, order
from meltline.domain.errors import MeltlineError
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.files import Departure, ManifestFile, PlannedFile
from meltline.domain.iceberg.locations import OwnerIndex, location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.path_aliases import data_set_of, place_of
from meltline.ports import ManifestReader, ObjectReader, PlaceLedger, SideFileIndex, SnapshotKey


def outside_roots(context: ReadContext, paths: Sequence[str]) -> Mapping[str, Why]:
    """Returns files outside every root, or in a half-seen location, by their paths alone."""
    return _confinement(context).named(paths)


def leading_out(context: ReadContext, paths: Sequence[str]) -> Mapping[str, Why]:
    """Returns files outside every root, with links resolved now, and files outside every table."""
    strays = outside_tables_now(context, paths)
    return {**_confinement(context).refused(paths), **dict.fromkeys(strays, Why.OUTSIDE_TABLES)}


def _confinement(context: ReadContext) -> Confinement:
    half_seen = remembered_places(context.control.places)
    return Confinement(context.config.roots, context.resolver, half_seen)


def note_withheld(places: PlaceLedger, step: str, rows: Sequence[Withheld]) -> None:
    """Stores what a step's plans leave out, for `doctor` and for the run's summary."""
    before = [row for row in places.withheld() if row.step == step]
    if sorted(rows, key=order) != before:
        places.save_withheld(step, rows)


def needed_elsewhere(
    context: RunContext,
    observation: Observation,
    paths: Sequence[str],
    keys: Collection[str] = (),
) -> Mapping[str, str]:
    """Returns files that are, or may be, needed under another name: by path, that name.

    `keys` are location keys of files under a purge veto.
    """
    if not paths:
        return {}
    named_keys: set[str] = set()
    half_seen = remembered_places(context.control.places)

    def needed(other_paths: Sequence[str]) -> Collection[str]:
        if not named_keys:
            named_keys.update(keys, _named_keys(context.files.side_files, observation))
            with suppress(MeltlineError, FileNotFoundError):  # then a gate refuses
                named_keys.update(doubted_keys(context.store, context.manifests, observation))
        hits = context.files.references.among(other_paths, observation.dead)
        hits |= lying_in(context.store, half_seen, other_paths)
        return hits | {path for path in other_paths if location_key(path) in named_keys}

    return needed_by_other_names(OtherNames.now(context), paths, needed)


def _named_keys(side_files: SideFileIndex, observation: Observation) -> set[str]:
    """Returns keys of metadata and statistics files that a table references, or may reference."""
    tables = (*observation.tables, *observation.left_behind)
    keys = {location_key(file.path) for table in tables for file in side_files_of(table.state)}
    unread = (f for f in side_files.known() if f.table_uuid not in observation.read)
    return keys | {location_key(file.path) for file in unread}


def doubted_keys(
    store: ObjectReader, reader: ManifestReader, observation: Observation
) -> frozenset[str]:
    """Returns location keys of all files that contradictory snapshots reference, from their lists.

    Raises:
        MeltlineError: A list or manifest cannot be read any more; FileNotFoundError if it is gone.
    """
    manifests: dict[str, ManifestFile] = {}
    lists: set[str] = set()
    for state in observation.doubted:
        for snapshot in state.snapshots.values():
            place = snapshot.manifest_list
            manifests |= {path: ManifestFile(path, 0) for path in snapshot.inline_manifests}
            if place and SnapshotKey(state.uuid, snapshot.snapshot_id) not in observation.indexed:
                lists.add(place)
                manifests |= {
                    file.path: file for file in reader.read_list(place, store.read(place))
                }
    paths = {path for m in manifests.values() for path in reader.live_paths(m, store.read(m.path))}
    return frozenset(map(location_key, paths.union(manifests, lists)))


def withheld(
    step: str,
    names: Mapping[str, TableName],
    owners: OwnerIndex,
    files: Sequence[PlannedFile | Departure],
    refused: Mapping[str, Why],
    needed: Mapping[str, str] | None = None,
) -> list[Withheld]:
    """Groups withheld files by table, reason and folder.

    Args:
        step: The step whose plans leave them out.
        names: Tables' names, by UUID.
        owners: Owners of locations.
        files: Files that are not referenced by their own names.
        refused: Why some of them may not be deleted.
        needed: The other name of a file that is referenced, or the other owner that may need it.
    """
    count, size = Counter[tuple[Why, str, str, str]](), Counter[tuple[Why, str, str, str]]()
    for file in files:
        table = str(names.get(file.owner, file.owner))
        if why := refused.get(file.path):
            claimant = needed[file.path] if needed and why is Why.FOREIGN else ""
            row = (why, table, _place(owners, why, file.path), claimant)
        elif needed and (needed_path := needed.get(file.path)):
            row = (Why.MAYBE_THE_SAME, table, place_of(file.path), place_of(needed_path))
        else:
            continue
        count[row] += 1
        size[row] += file.bytes
    return [Withheld(step, *row, files=count[row], bytes=size[row]) for row in count]


def _place(owners: OwnerIndex, why: Why, path: str) -> str:
    """Returns the folder under which a withheld file is reported."""
    if why is Why.OUTSIDE_TABLES:
        return data_set_of(path)
    is_owned = why in (Why.OUTSIDE, Why.FOREIGN, Why.NOT_AS_RECORDED)
    return (is_owned and owners.prefix_of(path)) or place_of(path)


def kept_back(context: ReadContext) -> list[str]:
    """Returns what the last plans left out, for a run's summary: a line for each fix."""
    places = context.control.places
    by_fix = grouped(places.withheld(), lambda row: row.fix)
    return [*half_seen_notices(places), *(_notice(rows) for _, rows in sorted(by_fix.items()))]


def contested_notes(context: ReadContext) -> list[str]:
    """Returns what the last purge left out because of foreign owners: an operator must decide."""
    rows = [r for r in context.control.places.withheld() if r.why is Why.FOREIGN]
    return [f"{row.notice}; {row.fix}" for row in rows if row.step == "purge"]


def _notice(rows: Sequence[Withheld]) -> str:
    first, count = rows[0], len(rows) - 1
    more = f" ({count} more like it)" if count else ""
    return f"{first.notice}{more}; {first.fix}"
