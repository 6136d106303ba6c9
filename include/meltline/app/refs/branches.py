"""Branches: rollback, branch, drop, publish and resync. No file is copied or deleted.

The CLI and SQL call it. Each is one commit that moves or removes a ref (DS-16, DS-17).
"""

from dataclasses import dataclass, replace

from meltline.app.catalog.commit import commit, open_table, require_free_name, require_ref
from meltline.app.catalog.recovery_hints import naming_archived
from meltline.app.safety.audit import audit
from meltline.app.safety.purge_vetoes import snapshot_kept
from meltline.app.services import ReadContext
from meltline.domain.errors import UndoRefused
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN, SnapshotRef, TableMetadata
from meltline.domain.iceberg.timeline import Point
from meltline.domain.safe_text import quote


@dataclass(frozen=True)
class MovedBranch:
    """A branch with a new head.

    Attributes:
        before: Its previous snapshot; None for a new branch.
        commits: Number of commits that it moved back or forward; 0 if it did not move.
    """

    table: TableName
    branch: str
    before: int | None
    after: int
    commits: int = 0


def rollback(context: ReadContext, table: TableName, point: Point, *, dry_run: bool) -> MovedBranch:
    """Moves main back to a snapshot that was its head before.

    Later commits stay readable by their snapshots for as long as the policy says.

    Raises:
        SnapshotNotFound: The table has no such snapshot any more.
        OutsideRetention: It is unknown which snapshot was current at that instant.
        UndoRefused: Main was never there, or another commit was made meanwhile.
        FilesClaimed: A purge has begun to delete some of its files.
        LockHeld: A run works on the table.
    """
    seen = open_table(context, table)
    with naming_archived(context.control.archived, seen.uuid, point.snapshot_id):
        target = point.resolve(seen, context.clock.now())
    main = require_ref(seen, MAIN, is_branch=True)
    line = [snapshot.snapshot_id for snapshot in seen.ancestry(main.snapshot_id)]
    if target not in line and target not in {
        log_entry.snapshot_id for log_entry in seen.snapshot_log
    }:
        raise UndoRefused(
            f"main of {table} was never at snapshot {target}",
            object=str(table),
            expected="a snapshot that main has been at",
            found=f"{target}: staged, or of another branch",
            next=f"`meltline publish {quote(table)} BRANCH` brings a branch's commits to main",
        )
    steps = line.index(target) if target in line else 0
    move = MovedBranch(table, MAIN, main.snapshot_id, target, steps)
    if dry_run or target == main.snapshot_id:
        return move

    def edit(document: MetadataEditor, state: TableMetadata) -> None:
        now_at = require_ref(state, MAIN, is_branch=True)
        if now_at.snapshot_id != main.snapshot_id:  # the user did not ask to undo that commit
            raise _moved(table, MAIN, main.snapshot_id, now_at.snapshot_id)
        document.set_ref(replace(now_at, snapshot_id=target))

    with snapshot_kept(context, seen.uuid, seen.snapshots[target], f"rollback {table}"):
        commit(context, seen, edit)
    audit(context, "rollback", str(table), detail=f"main: {main.snapshot_id} -> {target}")
    return move


def branch(
    context: ReadContext, table: TableName, name: str, point: Point, *, dry_run: bool
) -> MovedBranch:
    """Creates a branch at a snapshot.

    Raises:
        SnapshotNotFound: The table has no such snapshot, or none at all.
        OutsideRetention: It is unknown which snapshot was current at that instant.
        NameConflict: The name is taken or cannot be used.
    """
    seen = open_table(context, table)
    require_free_name(seen, name)
    target = Point(snapshot_id=point.resolve(seen, context.clock.now()))
    move = MovedBranch(table, name, None, target.resolve(seen, context.clock.now()))
    if dry_run:
        return move

    def edit(document: MetadataEditor, state: TableMetadata) -> None:
        require_free_name(state, name)
        target.resolve(state, context.clock.now())
        document.set_ref(SnapshotRef(name, move.after, is_branch=True))

    commit(context, seen, edit)
    audit(context, "branch", str(table), detail=f"{name} at {move.after}")
    return move


def drop_branch(context: ReadContext, table: TableName, name: str, *, dry_run: bool) -> SnapshotRef:
    """Drops a branch. Its own commits stay readable for as long as the policy says.

    Raises:
        RefNotFound: There is no such branch.
        UndoRefused: It is main.
    """
    seen = open_table(context, table)
    ref = require_ref(seen, name, is_branch=True)
    if name == MAIN:
        raise UndoRefused(
            f"main of {table} cannot be dropped",
            object=str(table),
            expected="another branch",
            found=MAIN,
            next=f"`meltline drop {quote(table)}` drops the table",
        )
    if not dry_run:

        def edit(document: MetadataEditor, state: TableMetadata) -> None:
            now_at = require_ref(state, name, is_branch=True)
            if now_at.snapshot_id != ref.snapshot_id:  # the user did not ask to drop that commit
                raise _moved(table, name, ref.snapshot_id, now_at.snapshot_id)
            document.remove_ref(name)

        commit(context, seen, edit)
        audit(context, "branch drop", str(table), detail=f"{name} at {ref.snapshot_id}")
    return ref


def _moved(table: TableName, name: str, before: int, now: int) -> UndoRefused:
    return UndoRefused(
        f"{name} of {table} has moved since it was looked at",
        object=str(table),
        expected=f"{name} at {before}",
        found=f"{name} at {now}",
        next="look at the new commits, and run the command again if they may go, too",
    )


def publish(context: ReadContext, table: TableName, name: str, *, dry_run: bool) -> MovedBranch:
    """Fast-forwards main to a branch's head.

    Raises:
        RefNotFound: There is no such branch.
        UndoRefused: Main has commits that the branch does not have; they would be lost.
    """
    return _fast_forward(context, table, MAIN, name, dry_run=dry_run, action="publish")


def resync(context: ReadContext, table: TableName, name: str, *, dry_run: bool) -> MovedBranch:
    """Fast-forwards a branch to main's head.

    Raises:
        RefNotFound: There is no such branch.
        UndoRefused: The branch has commits of its own; they would be lost.
    """
    return _fast_forward(context, table, name, MAIN, dry_run=dry_run, action="resync")


def _fast_forward(
    context: ReadContext, table: TableName, behind: str, ahead: str, *, dry_run: bool, action: str
) -> MovedBranch:
    seen = open_table(context, table)
    move = _forward(seen, behind, ahead)
    if dry_run or move.before == move.after:
        return move

    def edit(document: MetadataEditor, state: TableMetadata) -> None:
        nonlocal move
        move = _forward(state, behind, ahead)
        ref = state.refs.get(behind) or SnapshotRef(behind, move.after, is_branch=True)
        document.set_ref(replace(ref, snapshot_id=move.after))

    commit(context, seen, edit)
    audit(context, action, str(table), detail=f"{behind}: {move.before} -> {move.after}")
    return move


def _forward(state: TableMetadata, behind: str, ahead: str) -> MovedBranch:
    """Computes the fast-forward of a branch to another; refuses it if commits would be lost."""
    to = require_ref(state, ahead, is_branch=True).snapshot_id
    if behind == MAIN and MAIN not in state.refs:
        return MovedBranch(state.name, behind, None, to)
    at = require_ref(state, behind, is_branch=True).snapshot_id
    line = [snapshot.snapshot_id for snapshot in state.ancestry(to)]
    if at in line:
        return MovedBranch(state.name, behind, at, to, line.index(at))
    raise UndoRefused(
        f"{behind} of {state.name} has commits that {ahead} has not: they would be lost",
        object=str(state.name),
        expected=f"{behind} at an ancestor of {ahead}",
        found=f"{behind} at {at}, {ahead} at {to}",
        next="write what is missing there with an engine, or make a new branch from it",
    )
