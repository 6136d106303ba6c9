"""Purge vetoes: protect the files of a snapshot from purging before the file ledger is updated.

Hold, rollback, branch, undrop and recover start no JVM, and only Spark writes the file ledger. So
they lock the table's sharing group, and record a veto for the snapshot in the control ledger. They
refuse if a purge has claimed one of its files. Purge planning, its gate and its recheck obey the
veto; the next step that plans a purge turns it into cancelled departures.
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
    """Files that purge vetoes protect.

    Attributes:
        keys: Location keys of the files.
        blind: Why the files of a snapshot are unknown, by its table's UUID: no file of
            its sharing group may be purged.
    """

    keys: frozenset[str]
    blind: Mapping[str, str]


def files_of(store: ObjectReader, manifests: ManifestReader, veto: PurgeVeto) -> set[str]:
    """Returns all paths that a snapshot references, as written, from its own files.

    Raises:
        MetadataUnreadable: Its manifest list or a manifest cannot be read.
        FileNotFoundError: One of them does not exist.
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
    """Returns the files that some vetoes protect."""
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
    """Turns vetoes into cancelled departures, and removes the vetoes that are done.

    Returns:
        The files of vetoes that could not be processed: they stay protected.
    """
    unsettled: list[PurgeVeto] = []
    for row in vetoes.all():
        try:
            paths = sorted(files_of(store, manifests, row))
        except FileNotFoundError:
            if row.manifest_list and store.size(row.manifest_list) is None:
                # Without its list, the snapshot's files are unknown, and it can never be used.
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
    """Takes the locks of the sharing groups of some tables against lifecycle changes (PX-9).

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
    """Builds a veto for a snapshot, without recording it."""
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
    """Protects a snapshot's files from purging until a step has processed the veto.

    The veto is written first and the claims are read after it; a purge claims first and reads the
    vetoes after that. So one of the two always sees the other, regardless of locks.

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
    """Locks a table's group, and refuses if a purge has begun to delete files of a snapshot.

    It is for a snapshot that the table has and keeps. A purge that claims its files later finds the
    snapshot in the table, so no veto is needed. A leftover veto would make gates refuse if the
    snapshot leaves before a run has processed it.

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
    """Returns claimed files of some tables, and of tables that share files with them."""
    groups = Groups(context.control.registrations.sharing())
    members = groups.together(uuids)
    claimed = context.control.claims.paths()
    plans = {plan: context.control.plans.get(plan).table_uuid for plan in set(claimed.values())}
    return sorted(path for path, plan in claimed.items() if plans[plan] in members)


def refuse_claimed(paths: Sequence[str], purpose: str) -> None:
    """Raises FilesClaimed, with the files, if there are any."""
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
