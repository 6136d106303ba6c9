"""Files that are wanted back: taken from purging before the file ledger can say so.

Hold, rollback, branch, undrop and recover start no JVM, and only Spark writes the file ledger. So
they take the lock of the table's group, leave a word in the control ledger for the snapshot whose
files they want, and refuse where a purge has claimed one. Planning a purge, its gate and its last
proof obey that word; the next step that plans a purge turns it into cancelled departures.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from secrets import token_hex

from meltline.app.safety.audit import AuditTrail
from meltline.app.safety.tombstones import take_back
from meltline.app.services import ReadContext
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.errors import FilesClaimed, MeltlineError
from meltline.domain.iceberg.files import DepartureState, ManifestFile
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.table_metadata import Snapshot
from meltline.ports import DepartureLog, ManifestReader, ObjectReader, PurgeVeto, VetoLedger

_LEASE = timedelta(minutes=2)
_SHOWN = 5


@dataclass(frozen=True)
class WantedFiles:
    """What may not be purged because somebody wants it.

    Attributes:
        keys: Locations, in the form in which they are compared.
        blind: Why the files of some snapshot are not known, by its table's UUID: nothing of that
            table's group may be purged.
    """

    keys: frozenset[str]
    blind: Mapping[str, str]


def files_of(store: ObjectReader, manifests: ManifestReader, veto: PurgeVeto) -> set[str]:
    """Everything that a snapshot names, as written; read from its own files.

    Raises:
        MetadataUnreadable: Its manifest list or a manifest cannot be read.
        FileNotFoundError: One of them is not there.
        StoreRefused: The store does not answer.
    """
    refs: Sequence[ManifestFile] = [ManifestFile(path, 0) for path in veto.inline_manifests]
    paths = {ref.path for ref in refs}
    if veto.manifest_list:
        refs = manifests.read_list(veto.manifest_list, store.read(veto.manifest_list))
        paths = {veto.manifest_list, *(ref.path for ref in refs)}
    for ref in refs:
        paths.update(manifests.live_paths(ref, store.read(ref.path)))
    return paths


def wanted_files(
    store: ObjectReader, manifests: ManifestReader, rows: Sequence[PurgeVeto]
) -> WantedFiles:
    """What these words protect."""
    keys: set[str] = set()
    blind: dict[str, str] = {}
    for row in rows:
        try:
            keys |= {location_key(path) for path in files_of(store, manifests, row)}
        except (MeltlineError, FileNotFoundError) as error:
            blind[row.table_uuid] = f"{row.reason} wants files that cannot be read: {error}"
    return WantedFiles(frozenset(keys), blind)


def settle_wanted_back(
    vetoes: VetoLedger,
    store: ObjectReader,
    manifests: ManifestReader,
    departures: DepartureLog,
    trail: AuditTrail,
) -> WantedFiles:
    """Cancels the departures of what is wanted back, and forgets the words that are done.

    Returns:
        What could not be settled: it stays protected as it is.
    """
    unsettled: list[PurgeVeto] = []
    for row in vetoes.all():
        try:
            paths = sorted(files_of(store, manifests, row))
        except FileNotFoundError:
            if row.manifest_list and store.size(row.manifest_list) is None:
                # Without its list nobody can tell, or ever use, what the snapshot named.
                _forget(vetoes, trail, row, "its manifest list is gone")
            else:
                unsettled.append(row)
            continue
        except MeltlineError:
            unsettled.append(row)
            continue
        waiting = departures.in_states(frozenset({DepartureState.FAILSAFE}), paths=paths)
        take_back(departures, trail, [departure.path for departure in waiting], row.reason)
        vetoes.remove([row.id])
    return wanted_files(store, manifests, unsettled)


def _forget(vetoes: VetoLedger, trail: AuditTrail, row: PurgeVeto, why: str) -> None:
    vetoes.remove([row.id])
    subject = f"{row.table_uuid}@{row.snapshot_id}"
    trail.add("give up wanted files", subject, why, row.reason)


@contextmanager
def group_locks(context: ReadContext, uuids: Collection[str], purpose: str) -> Iterator[None]:
    """Holds the locks of the groups of some tables: no lifecycle change meanwhile (PX-9).

    Raises:
        LockHeld: A run works on one of them and did not end within `limits.lock-wait`.
    """
    groups = Groups(context.control.registrations.sharing())
    wait = context.config.limits.lock_wait
    holder = f"{context.who} {purpose}"
    with ExitStack() as locks:
        for key in sorted({groups.key(uuid) for uuid in uuids}):
            locks.enter_context(context.control.locks.take(key, holder, wait=wait, lease=_LEASE))
        yield


def veto_for(context: ReadContext, uuid: str, snapshot: Snapshot, reason: str) -> PurgeVeto:
    """A snapshot in the form in which its files are named; recorded nowhere."""
    return PurgeVeto(
        id="",
        table_uuid=uuid,
        snapshot_id=snapshot.snapshot_id,
        manifest_list=snapshot.manifest_list,
        inline_manifests=snapshot.inline_manifests,
        who=context.who,
        reason=reason,
        at=context.clock.now(),
    )


@contextmanager
def snapshot_kept(
    context: ReadContext, uuid: str, snapshot: Snapshot, purpose: str
) -> Iterator[None]:
    """Keeps a snapshot's files from being purged, from now on until a step has settled it.

    The word comes first and the look at the claims after it: a purge claims first and looks at
    the words after that. So one of the two always sees the other, whoever holds the lock.

    Raises:
        LockHeld: A run works on the table.
        FilesClaimed: A purge has begun to delete one of the files; nothing was changed.
    """
    with group_locks(context, [uuid], purpose):
        row = _new_veto(context, uuid, snapshot, purpose)
        context.control.vetoes.add(row)
        try:
            _refuse_claimed_of(context, row)
            yield
        except BaseException:
            context.control.vetoes.remove([row.id])
            raise


@contextmanager
def snapshot_unclaimed(
    context: ReadContext, uuid: str, snapshot: Snapshot, purpose: str
) -> Iterator[None]:
    """No run works on a table meanwhile, and no purge has begun to delete files of a snapshot.

    For a snapshot that the table has and keeps: a purge that claims its files after this look
    finds it there, so it needs no word. One that stayed behind would make gates refuse when the
    snapshot leaves before a run has settled it.

    Raises:
        LockHeld: A run works on the table.
        FilesClaimed: A purge has begun to delete one of the files; nothing was changed.
    """
    with group_locks(context, [uuid], purpose):
        _refuse_claimed_of(context, _new_veto(context, uuid, snapshot, purpose))
        yield


def _new_veto(context: ReadContext, uuid: str, snapshot: Snapshot, purpose: str) -> PurgeVeto:
    return replace(veto_for(context, uuid, snapshot, purpose), id=token_hex(8))


def _refuse_claimed_of(context: ReadContext, row: PurgeVeto) -> None:
    if claimed := context.control.claims.paths():
        needed = {location_key(path) for path in files_of(context.store, context.manifests, row)}
        refuse_claimed([p for p in claimed if location_key(p) in needed], row.reason)


def claimed_of(context: ReadContext, uuids: Collection[str]) -> list[str]:
    """Files of some tables, or of those that share files with them, that a purge has claimed."""
    groups = Groups(context.control.registrations.sharing())
    members = groups.together(uuids)
    claimed = context.control.claims.paths()
    plans = {plan: context.control.plans.get(plan).table_uuid for plan in set(claimed.values())}
    return sorted(path for path, plan in claimed.items() if plans[plan] in members)


def refuse_claimed(paths: Sequence[str], purpose: str) -> None:
    """Raises FilesClaimed, naming the files, where there are any."""
    if not paths:
        return
    names = ", ".join(sorted(paths)[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    raise FilesClaimed(
        f"{purpose}: a purge has begun to delete files that are needed",
        object=names + more,
        expected="files that no purge has claimed",
        found=f"{len(paths)} claimed files",
        next="`meltline stop` holds the purge back; `meltline run` ends it; then look again",
    )
