"""Report: storage by stage, per table and day.

Stages are derived from what the ledger knows. A byte stands with the owner of its file, once,
however many tables refer to it (ML-4, ML-18, I-3). A past day can be computed again: a file is
there from the commit that brought it until it was deleted (design section 3).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from meltline.app.dropped import let_go_tables
from meltline.app.metadata import load_states
from meltline.app.services import Ledgers
from meltline.app.tables import is_ledger
from meltline.domain.drops import is_dropped_name, read_drop
from meltline.domain.errors import MeltlineError
from meltline.domain.files import DepartureState, FileKind
from meltline.domain.locations import OwnerIndex, location_key
from meltline.domain.names import TableName
from meltline.domain.plan import PlanState
from meltline.domain.storage import Stage, StorageRow
from meltline.domain.table import MAIN, TableState
from meltline.ports import LedgerContents, SnapshotKey


@dataclass
class FileStanding:
    """One file, at one moment."""

    path: str
    kind: str
    bytes: int
    owner: str
    stage: Stage
    tables: set[str] = field(default_factory=set)
    snapshots: set[SnapshotKey] = field(default_factory=set)


@dataclass(frozen=True)
class Standing:
    """Every known file with its stage, and whose names the UUIDs are."""

    at: datetime
    files: Mapping[str, FileStanding]
    foreign: Mapping[str, FileStanding]
    names: Mapping[str, TableName]


def storage_rows(
    standing: Standing, in_flight: Mapping[str, int] | None = None
) -> list[StorageRow]:
    """Sums a standing per owner; foreign bytes stand with the table that refers to them."""
    totals: dict[str, dict[str, int]] = {uuid: {} for uuid in standing.names}
    for file in standing.files.values():
        of_owner = totals.setdefault(file.owner, {})
        of_owner[file.stage] = of_owner.get(file.stage, 0) + file.bytes
    for file in standing.foreign.values():
        for uuid in sorted(file.tables)[:1]:
            totals.setdefault(uuid, {})["foreign"] = totals[uuid].get("foreign", 0) + file.bytes
    rows = []
    for uuid, found in totals.items():
        name = standing.names.get(uuid)
        if name is None:
            continue
        rows.append(
            StorageRow(
                table=name,
                table_uuid=uuid,
                active_bytes=found.get(Stage.ACTIVE, 0),
                historical_bytes=found.get(Stage.HISTORICAL, 0),
                retained_for_clone_bytes=found.get(Stage.RETAINED_FOR_CLONE, 0),
                failsafe_bytes=found.get(Stage.FAILSAFE, 0),
                deleted_bytes=found.get(Stage.DELETED, 0),
                foreign_bytes=found.get("foreign", 0),
                in_flight_bytes=None if in_flight is None else in_flight.get(uuid, 0),
                computed_at=standing.at,
            )
        )
    return sorted(rows, key=lambda row: row.table)


def standing_now(ledgers: Ledgers) -> Standing:
    """Where every known file stands by the tables' present metadata."""
    return StorageHistory(ledgers).at(None)


class StorageHistory:
    """Where every known file stood at any instant, from one look at ledgers and catalogs.

    Raises:
        CatalogUnlistable: A catalog cannot be listed, so that nobody knows the heads.
    """

    def __init__(self, ledgers: Ledgers) -> None:
        self._ledgers = ledgers
        self._contents = ledgers.reader.contents()
        self._states, self._names = _states(ledgers)

    def at(self, as_of: datetime | None) -> Standing:
        """The standing at an instant; None is now."""
        if as_of is not None and as_of >= self._ledgers.clock.now():
            as_of = None
        return _Stages(self._ledgers, self._contents, self._states, self._names, as_of).standing()

    @property
    def states(self) -> Sequence[TableState]:
        """Every readable table of every catalog, the ledger's own left out."""
        return self._states

    @property
    def indexed(self) -> frozenset[SnapshotKey]:
        """The snapshots whose files the ledger knows."""
        return frozenset(snapshot.key for snapshot in self._contents.snapshots)


def _states(ledgers: Ledgers) -> tuple[list[TableState], dict[str, TableName]]:
    """Every readable table, and the names of all ever known; the ledger's own left out."""
    loaded: list[TableState | MeltlineError] = []
    for catalog in ledgers.catalogs.values():
        entries = [e for e in catalog.listing().entries if not is_ledger(ledgers, e.name)]
        loaded += load_states(ledgers.store, entries).values()
    states = [state for state in loaded if isinstance(state, TableState)]
    names = {table.uuid: table.name for table in ledgers.control.tables()}
    names.update({state.uuid: state.name for state in states})
    return states, names


class _Stages:
    """Derives stages; a file's rank only ever rises from active outwards, so the lowest wins."""

    def __init__(
        self,
        ledgers: Ledgers,
        contents: LedgerContents,
        states: Iterable[TableState],
        names: Mapping[str, TableName],
        as_of: datetime | None,
    ) -> None:
        self._at = as_of or ledgers.clock.now()
        self._past = as_of
        self._contents = contents
        self._states = list(states)
        self._live = [state for state in self._states if not _is_dropped(state, self._at)]
        self._names = names
        self._owners = OwnerIndex(ledgers.control.ownerships())
        self._unregistered = let_go_tables(ledgers.control.tables()).keys()
        self._expired = {
            SnapshotKey(plan.table_uuid, snapshot_id): plan.created_at
            for plan in ledgers.control.plans(states=[PlanState.APPLIED])
            for snapshot_id in (*plan.snapshots, *plan.gone_snapshots)
        }
        self._files: dict[str, FileStanding] = {}
        self._foreign: dict[str, FileStanding] = {}
        self._by_manifest: dict[int, list[tuple[str, str, int]]] = {}
        for entry in (*contents.manifests, *contents.entries):
            self._by_manifest.setdefault(entry.manifest_id, []).append(
                (entry.path, entry.kind, entry.bytes)
            )

    def standing(self) -> Standing:
        heads = self._heads()
        present = self._present()
        kept, left = self._in_metadata(), self._departed()
        for snapshot in self._contents.snapshots:
            if snapshot.key not in present:
                continue
            uuid, stage = snapshot.key.table_uuid, Stage.HISTORICAL
            if snapshot.key in heads:
                stage = Stage.ACTIVE
            files = [f for m in snapshot.manifests for f in self._by_manifest.get(m, ())]
            if snapshot.manifest_list:
                files.append(
                    (snapshot.manifest_list, FileKind.MANIFEST_LIST, snapshot.manifest_list_bytes)
                )
            for path, kind, size in files:
                # What no table's metadata holds any more keeps nothing that has departed since.
                departed = left.get(location_key(path))
                if snapshot.key in kept or departed is None or departed < snapshot.committed_at:
                    self._refer(path, kind, size, uuid, stage, snapshot.key)
        self._side_files()
        self._departures()
        return Standing(self._at, self._files, self._foreign, self._names)

    def _heads(self) -> set[SnapshotKey]:
        if self._past is None:
            return {SnapshotKey(s.uuid, head) for s in self._live for head in s.heads.values()}
        heads: set[SnapshotKey] = set()
        for state in self._live:
            then = [entry for entry in state.snapshot_log if entry.at <= self._past]
            heads.update(self._side_heads(state))
            if then:
                heads.add(SnapshotKey(state.uuid, then[-1].snapshot_id))
            else:
                known = [
                    s for s in self._contents.snapshots
                    if s.key.table_uuid == state.uuid and s.committed_at <= self._past
                ]  # fmt: skip
                if known:  # the log was cut by expiry: the newest snapshot of that time answers
                    heads.add(max(known, key=lambda s: s.committed_at).key)
        return heads

    def _side_heads(self, state: TableState) -> Iterable[SnapshotKey]:
        """Heads of other branches at that time: the newest of their line by then."""
        for name, head in state.heads.items():
            line = state.ancestry(head) if name != MAIN and self._past else ()
            then = next((s for s in line if self._past and s.committed_at <= self._past), None)
            if then is not None:
                yield SnapshotKey(state.uuid, then.snapshot_id)

    def _present(self) -> set[SnapshotKey]:
        """Snapshots that keep their files: in today's metadata, or not departed at that time.

        What others have expired stays where it was until its files depart. But where a clone has
        the very snapshot that its source has let go of, it is the clone that keeps the files.
        """
        left = self._departed_lists(self._at)
        there = {
            s.key: location_key(s.manifest_list) if s.manifest_list else s.key
            for s in self._contents.snapshots
            if (self._past is None or s.committed_at <= self._past)
            and location_key(s.manifest_list) not in left
        }
        gone = self._let_go(there)
        kept = {files for key, files in there.items() if key not in gone}
        present = {key for key, files in there.items() if key not in gone or files not in kept}
        return present if self._past else self._in_metadata() | present

    def _let_go(self, keys: Iterable[SnapshotKey]) -> set[SnapshotKey]:
        """Snapshots that their tables had let go of by then, whether or not their files departed.

        Of a past day only Meltline's own plans tell that.
        """
        if self._past is not None:
            return {key for key, at in self._expired.items() if at <= self._past}
        named, read = self._in_metadata(), {state.uuid for state in self._states}
        return {k for k in keys if k not in named and k.table_uuid in read | self._unregistered}

    def _in_metadata(self) -> set[SnapshotKey]:
        return {SnapshotKey(s.uuid, sid) for s in self._states for sid in s.snapshots}

    def _departed(self) -> dict[str, datetime]:
        """What had departed by that time and was not taken back, and when."""
        return {
            location_key(d.path): d.departed_at
            for d in self._contents.departures
            if d.state is not DepartureState.CANCELLED and d.departed_at <= self._at
        }

    def _departed_lists(self, by: datetime) -> set[str]:
        return {
            location_key(d.path)
            for d in self._contents.departures
            if d.kind is FileKind.MANIFEST_LIST
            and d.state is not DepartureState.CANCELLED
            and d.departed_at <= by
        }

    def _refer(
        self, path: str, kind: str, size: int, uuid: str, stage: Stage, key: SnapshotKey | None
    ) -> None:
        owners = self._owners.owners(path)
        book = self._files if owners else self._foreign
        at = location_key(path)
        owner = uuid if uuid in owners else (owners[0] if owners else "")
        if owner != uuid and stage is not Stage.DELETED:
            stage = Stage.RETAINED_FOR_CLONE
        file = book.setdefault(at, FileStanding(path, str(kind), size, owner, stage))
        if stage.rank < file.stage.rank:
            file.stage = stage
            file.owner = owner or file.owner
        file.tables.add(uuid)
        if key is not None:
            file.snapshots.add(key)

    def _side_files(self) -> None:
        heads = {SnapshotKey(s.uuid, head) for s in self._live for head in s.heads.values()}
        since = {
            location_key(path): moment
            for state in self._states
            for path, moment in (
                *state.metadata_times.items(),
                (state.metadata_location, state.last_updated),
            )
        }
        current = self._current_metadata(since)
        departed = self._departed()
        for file in self._contents.side_files:
            at = location_key(file.path)
            if at in departed:
                continue
            if self._past is not None and since.get(at, self._past) > self._past:
                continue
            active = at in current or (
                file.snapshot_id is not None
                and SnapshotKey(file.table_uuid, file.snapshot_id) in heads
            )
            stage = Stage.ACTIVE if active else Stage.HISTORICAL
            self._refer(file.path, file.kind, file.bytes, file.table_uuid, stage, None)

    def _current_metadata(self, since: Mapping[str, datetime]) -> set[str]:
        """Each table's metadata file of that moment: the last one of its log by then."""
        current: set[str] = set()
        for state in self._live:
            log = [location_key(path) for path in (*state.metadata_log, state.metadata_location)]
            then = [at for at in log if not self._past or since.get(at, self._past) <= self._past]
            current.update(then[-1:])
        return current

    def _departures(self) -> None:
        for departure in self._contents.departures:
            if departure.state is DepartureState.CANCELLED or departure.departed_at > self._at:
                continue
            at = location_key(departure.path)
            if at in self._files:
                continue  # something refers to it again: that is newer than the record
            deleted = departure.state is DepartureState.DELETED
            gone = deleted and departure.recorded_at <= self._at
            self._files[at] = FileStanding(
                departure.path,
                str(departure.kind),
                departure.bytes,
                departure.owner,
                Stage.DELETED if gone else Stage.FAILSAFE,
            )


def _is_dropped(state: TableState, at: datetime) -> bool:
    """Whether a table was a dropped one at that time: nothing of it is active then."""
    drop = read_drop(state.name.catalog, state.properties)
    return is_dropped_name(state.name.namespace) and (drop is None or drop.at <= at)


def record_storage(ledgers: Ledgers, standing: Standing) -> None:
    """Stores today's rows under today, never under another day (ML-37)."""
    day = ledgers.clock.now().date().isoformat()
    ledgers.control.save_storage(day, storage_rows(standing))


def in_flight_bytes(ledgers: Ledgers, standing: Standing) -> dict[str, int]:
    """Bytes under each table's prefixes that no commit has named, from a listing made now.

    Side files of Hadoop's local file system (`.NAME.crc`) go with their file and do not count.
    """
    owners = OwnerIndex(ledgers.control.ownerships())
    found: dict[str, int] = {}
    seen: set[str] = set()
    for prefix in sorted({o.prefix for o in ledgers.control.ownerships()}):
        for stored in ledgers.store.list(prefix):
            at = location_key(stored.path)
            name = stored.path.rpartition("/")[2]
            if at in seen or at in standing.files or (name[:1] == "." and name[-4:] == ".crc"):
                continue
            seen.add(at)
            for uuid in owners.owners(stored.path)[:1]:
                found[uuid] = found.get(uuid, 0) + stored.bytes
    return found
