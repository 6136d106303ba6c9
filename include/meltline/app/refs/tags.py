"""Tags: adds, removes and lists named snapshots, each with the retention of its tag.

The CLI and SQL call it. Holds, shares and consumers use tags of their own, which this module lists
and does not change (AR-41 to AR-44, AR-46, ML-24).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.app.catalog.commit import commit, open_table, require_free_name, require_ref
from meltline.app.catalog.recovery_hints import naming_archived
from meltline.app.catalog.resolve import load_table
from meltline.app.catalog.share_namespaces import share_at
from meltline.app.safety.audit import audit
from meltline.app.services import ReadContext
from meltline.domain.errors import NameConflict, RetentionOutOfRange
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import SnapshotRef, TableMetadata
from meltline.domain.iceberg.timeline import Point
from meltline.domain.retention.policy import CONSUMER_TAG, FOREVER_MS, HOLD_TAG, OWN_TAGS, SHARE_TAG
from meltline.domain.units import format_instant

FOREVER = "forever"
_MOST_DAYS = 365_000
_OWN = {HOLD_TAG: "hold", SHARE_TAG: "share", CONSUMER_TAG: "consumer"}


@dataclass(frozen=True)
class Tag:
    """A tag and its retention.

    Attributes:
        kind: `tag`, `named` (it stays for ever), `hold`, `share` or `consumer`.
        committed_at: The time of the snapshot's commit.
        expires_at: The time from which a run removes the tag; None is never.
    """

    table: TableName
    name: str
    snapshot_id: int
    kind: str
    committed_at: datetime
    expires_at: datetime | None


def add_tag(
    context: ReadContext,
    table: TableName,
    name: str,
    point: Point,
    days: int | None,
    *,
    dry_run: bool,
    reason: str = "",
) -> Tag:
    """Tags a snapshot.

    Args:
        context: The ports.
        table: The table.
        name: The tag's name.
        point: The snapshot; main's head by default.
        days: The tag's retention from now on, not from the snapshot's commit; None is an explicit
            for ever, so that no default of the table ends it.
        dry_run: Check everything and change nothing.
        reason: The reason, for the audit.

    Raises:
        SnapshotNotFound: There is no such snapshot; the error says if it is archived (AR-44).
        OutsideRetention: It is unknown which snapshot was current at that instant.
        NameConflict: The name is taken or cannot be used.
        RetentionOutOfRange: The profile has no tags for ever, or the days are out of range.
    """
    _require_days(context, days)
    now = context.clock.now()
    seen = open_table(context, table)

    def ref_in(state: TableMetadata) -> SnapshotRef:
        require_free_name(state, name)
        snapshot = state.snapshots[point.resolve(state, now)]
        days_on = timedelta(hours=24 * (days or 0))
        age = FOREVER_MS if days is None else snapshot.age_at(now + days_on)
        return SnapshotRef(name, snapshot.snapshot_id, is_branch=False, max_ref_age_ms=age)

    with naming_archived(context.control.archived, seen.uuid, point.snapshot_id):
        ref = ref_in(seen)
    tag = _tag(seen, ref)
    if dry_run:
        return tag
    # Tags exactly the snapshot that is shown, whatever is committed meanwhile.
    exact = Point(snapshot_id=ref.snapshot_id)

    def edit(document: MetadataEditor, state: TableMetadata) -> None:
        require_free_name(state, name)
        exact.resolve(state, now)
        document.set_ref(ref)

    commit(context, seen, edit)
    until = format_instant(tag.expires_at) if tag.expires_at else FOREVER
    audit(context, "tag", str(table), reason, f"{name} on {ref.snapshot_id} until {until}")
    return tag


def remove_tag(
    context: ReadContext, table: TableName, name: str, *, dry_run: bool, reason: str = ""
) -> Tag:
    """Removes a tag, for a reason: the ordinary rules apply to its snapshot (AR-43).

    Raises:
        RefNotFound: There is no such tag.
        NameConflict: It belongs to a hold, a share or a consumer, which have commands of their own.
            The tag of a share that is gone without `share drop` counts as a user's.
    """
    seen = open_table(context, table)
    tag = _tag(seen, require_ref(seen, name, is_branch=False))
    if tag.kind in ("hold", "consumer") or (
        tag.kind == "share" and _share_stands(context, table, name)
    ):
        raise NameConflict(
            f"{table}: {name} is a {tag.kind}",
            object=str(table),
            expected="a tag that somebody has set by hand",
            found=name,
            next="`meltline hold remove ID --reason TEXT` ends a hold, `meltline share drop NAME` "
            "a share, `meltline consumer remove TABLE NAME` a consumer",
        )
    if not dry_run:

        def edit(document: MetadataEditor, state: TableMetadata) -> None:
            require_ref(state, name, is_branch=False)
            document.remove_ref(name)

        commit(context, seen, edit)
        audit(context, "untag", str(table), reason, f"{name} on {tag.snapshot_id}")
    return tag


def _share_stands(context: ReadContext, table: TableName, tag: str) -> bool:
    listing = context.catalogs[table.catalog].listing()
    place = ObjectName(table.catalog, (tag.removeprefix(SHARE_TAG),))
    return share_at(place, listing) is not None


def list_tags(context: ReadContext, table: TableName) -> list[Tag]:
    """A table's tags, by name."""
    state = load_table(context, table)
    return [_tag(state, ref) for _, ref in sorted(state.refs.items()) if not ref.is_branch]


def _tag(state: TableMetadata, ref: SnapshotRef) -> Tag:
    snapshot = state.snapshots[ref.snapshot_id]
    age = ref.max_ref_age_ms
    ours = ref.name.startswith(OWN_TAGS)
    if age is None and not ours:
        raw = state.properties.get("history.expire.max-ref-age-ms", "")
        age = int(raw) if raw.isdecimal() else None
    by_hand = "named" if ref.max_ref_age_ms == FOREVER_MS else "tag"
    kind = next((own for prefix, own in _OWN.items() if ref.name.startswith(prefix)), by_hand)
    ends = snapshot.instant_of_age(age)
    return Tag(state.name, ref.name, ref.snapshot_id, kind, snapshot.committed_at, ends)


def _require_days(context: ReadContext, days: int | None) -> None:
    profile = context.config.account.profile
    if days is None and not profile.has_named_snapshots:
        raise RetentionOutOfRange(
            f"profile {profile.name} has no snapshots that are kept for ever",
            object=f"profile {profile.name}",
            expected="--retention-days with a number",
            found=FOREVER,
            next="give a number of days, or choose another profile in meltline.yaml",
        )
    if days is not None and not 1 <= days <= _MOST_DAYS:
        raise RetentionOutOfRange(
            "a tag stays for at least a day",
            object="--retention-days",
            expected=f"1 to {_MOST_DAYS} days, or {FOREVER}",
            found=str(days),
            next=f"give a number of days, or {FOREVER}",
        )
