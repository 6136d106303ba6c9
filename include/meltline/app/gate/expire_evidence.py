"""Evidence about expirations: nothing needs the planned snapshots and refs, and totals match.

`collect_evidence` calls it. It uses only the plan's name and date, the table's metadata and the
ledger, neither the planner nor its rules. Whether another table references a planned file is left
to the gate's proof, which knows no exception (TT-45).

A table may move between its plan and its gate. Later commits only add references: the gate reads
them like everything else that remains. The index cannot have them, and need not (decision 026).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, pairwise, takewhile, zip_longest
from statistics import median

from meltline.app.catalog.live_catalogs import LiveCatalogs
from meltline.app.catalog.metadata import load_concurrently, load_state
from meltline.app.catalog.tables import remembered
from meltline.app.gate.cases import Case, Measures
from meltline.app.gate.proof import Proof
from meltline.app.gate.sources import GateSources
from meltline.config.load import Config
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.main_history import lost_drops
from meltline.domain.chunks.sync import TrackedTable
from meltline.domain.deletion.plan import Plan
from meltline.domain.drop.drops import Drop, is_dropped_name, read_drop
from meltline.domain.errors import MeltlineError, MetadataMissing
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN, Snapshot, TableMetadata
from meltline.domain.retention.holds import is_held
from meltline.domain.retention.policy import CONSUMER_TAG, effective_retention
from meltline.domain.retention.stated_policies import Stated, with_stated
from meltline.ports import (
    CatalogEntry,
    CatalogListing,
    Lease,
    ObjectReader,
    PlanReader,
    SnapshotKey,
)

Totals = tuple[int, int]


@dataclass(frozen=True)
class Base:
    """The table as its plan saw it; by the plan's header if that metadata file is gone.

    Attributes:
        snapshots: All snapshots that it had.
        heads: Heads of the branches that the plan keeps.
        error: Why the file could not be read although it may exist.
    """

    snapshots: frozenset[int]
    heads: frozenset[int]
    error: str = ""

    @classmethod
    def of(cls, plan: Plan, state: TableMetadata) -> "Base":
        """Builds it from the metadata file."""
        return cls(frozenset(state.snapshots), staying_heads(plan, state.heads))

    @classmethod
    def told_by(cls, plan: Plan, error: str = "") -> "Base":
        """Builds it from the plan's header: an engine may delete replaced metadata files."""
        snapshots = frozenset((*plan.snapshots, *plan.heads.values()))
        return cls(snapshots, staying_heads(plan, plan.heads), error)

    def checked_heads(self, plan: Plan, state: TableMetadata) -> frozenset[int]:
        """Returns the heads to check: the current ones, and the base's heads that still exist."""
        heads = staying_heads(plan, state.heads) | (self.heads & state.snapshots.keys())
        return heads - frozenset(plan.snapshots)  # a planned head refuses the plan anyway


def staying_heads(plan: Plan, heads: Mapping[str, int]) -> frozenset[int]:
    """Returns the heads of the branches that a plan keeps."""
    return frozenset(head for name, head in heads.items() if name not in plan.refs)


def read_bases(
    store: ObjectReader, world: LiveCatalogs, plans: Sequence[Plan]
) -> Mapping[str, Base]:
    """Returns each expiration plan's base, by plan id; reads a file only if its table has moved."""

    def read(plan: Plan) -> Base:
        state = world.of(plan.table_uuid, plan.table)
        try:
            if state is None or state.metadata_location != plan.base_location:
                state = load_state(store, plan.table, plan.base_location)
        except MetadataMissing:
            return Base.told_by(plan)
        except MeltlineError as error:
            return Base.told_by(plan, f"{plan.base_location}: {error.found or error.message}")
        return Base.of(plan, state)

    return dict(zip((plan.id for plan in plans), load_concurrently(read, plans), strict=True))


def differing_heads(
    plan: Plan,
    base: Base,
    state: TableMetadata,
    totals: Mapping[SnapshotKey, Totals],
    indexed: Mapping[SnapshotKey, Totals],
    *,
    is_trusted: bool,
) -> Iterable[str]:
    """Yields heads whose live files differ between the files, the index and the snapshot's totals.

    A snapshot in the base must be in the index. For a newer one, files and totals must agree, and
    the index if it has the snapshot. For a trusted table, both readers of the manifests must agree.
    """
    for head in sorted(base.checked_heads(plan, state)):
        key = SnapshotKey(plan.table_uuid, head)
        files, size = totals.get(key, (-1, -1))
        summary = state.snapshots[head].summary
        counts = [summary.get("total-data-files", ""), summary.get("total-delete-files", "")]
        is_told = not is_trusted and all(total.isdecimal() for total in counts)
        stated = sum(map(int, counts)) if is_told else files
        by_index = indexed.get(key)
        is_newer = by_index is None and head not in base.snapshots
        if stated != files or files < 0 or not (is_newer or by_index == (files, size)):
            yield f"{head}: files {files}/{size} B, index {by_index}, summary {stated}"


_HISTORY = 10
_NOTHING_PROMISED: Measures = {"planned_in_window": (), "planned_writer_walks": ()}
_ENOUGH_HISTORY = 3  # growth means nothing for a table with fewer earlier plans


@dataclass(frozen=True)
class LedgerFacts:
    """Facts of the ledgers about all expirations of a gate: one query each, because each is a job.

    Attributes:
        unknown: Planned paths that are not in the index.
        indexed: Live files and bytes of heads, by the index.
        distinct: Bytes of distinct remaining live files, for tables that lose much, by UUID.
        policies: Recorded policies, by object.
        stated: Current settings of the catalogs' policy stores, by table.
        bases: The base of each plan, by plan id.
        leases: Active leases.
        vetoed: Tables with a purge veto.
        tracked: Tables with chunks, by UUID; `chunks` has their chunks.
    """

    unknown: Collection[str] = ()
    indexed: Mapping[SnapshotKey, tuple[int, int]] = field(default_factory=dict)
    distinct: Mapping[str, int] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stated: Mapping[TableName, Stated] = field(default_factory=dict)
    bases: Mapping[str, Base] = field(default_factory=dict)
    leases: Sequence[Lease] = ()
    vetoed: frozenset[str] = frozenset()
    tracked: Mapping[str, TrackedTable] = field(default_factory=dict)
    chunks: Mapping[str, Collection[Chunk]] = field(default_factory=dict)

    @classmethod
    def read(
        cls, sources: GateSources, proof: Proof, plans: Sequence[Plan], paths: Sequence[str]
    ) -> "LedgerFacts":
        """Reads the facts of some expirations; `paths` are those of all planned files."""
        if not plans:
            return cls()
        bases = read_bases(sources.store, proof.world, plans)
        limit = sources.config.limits.max_delete_ratio
        losing = {p.table_uuid for p in plans if _ratio(p, _remains(proof, p)) > limit}
        remaining = [s for s in proof.remaining if s.table_uuid in losing]
        uuids = {plan.table_uuid for plan in plans}
        tracked = {table.table_uuid: table for table in sources.chunks.tracked(uuids)}
        return cls(
            unknown=sources.references.unknown(paths),
            indexed=sources.snapshots.live_totals(sorted(_checked_heads(proof, plans, bases))),
            distinct=sources.proofs.distinct_bytes(remaining) if remaining else {},
            policies=sources.policies.all(),
            stated=_stated(sources, [plan.table for plan in plans]),
            bases=bases,
            leases=sources.leases.active(sources.clock.now()),
            vetoed=frozenset(veto.table_uuid for veto in sources.vetoes.all()),
            tracked=tracked,
            chunks={uuid: sources.chunks.of(uuid).values() for uuid in tracked},
        )

    def leased(self, uuid: str) -> set[int]:
        """Returns the leased snapshots of a table."""
        return {lease.snapshot_id for lease in self.leases if lease.table_uuid == uuid}

    def lost_drops(self, state: TableMetadata, leaving: Collection[int]) -> Collection[int]:
        """Returns chunk drops whose status would become unknown once some snapshots are gone."""
        tracked = self.tracked.get(state.uuid)
        return lost_drops(state, tracked, self.chunks[state.uuid], leaving) if tracked else ()

    @property
    def busy(self) -> frozenset[str]:
        """Tables with a leased snapshot or a purge veto."""
        return self.vetoed.union(lease.table_uuid for lease in self.leases)


def _stated(sources: GateSources, tables: Sequence[TableName]) -> Mapping[TableName, Stated]:
    """Reads policy stores about current tables again, regardless of what the planner read."""
    standing = [name for name in tables if not is_dropped_name(name.namespace)]
    told: dict[TableName, Stated] = {}
    for catalog, store in sources.policy_stores.items():
        told |= store.of([name for name in standing if name.catalog == catalog], anew=True)
    return told


def _checked_heads(
    proof: Proof, plans: Sequence[Plan], bases: Mapping[str, Base]
) -> set[SnapshotKey]:
    return {
        SnapshotKey(plan.table_uuid, head)
        for plan in plans
        if (state := proof.world.of(plan.table_uuid, plan.table))
        for head in bases[plan.id].checked_heads(plan, state)
    }


def expire_measures(case: Case, facts: LedgerFacts) -> Measures:
    """Returns the facts about an expiration."""
    plan, around, paths = case.plan, case.around, set(case.paths)
    state = around.proof.world.of(plan.table_uuid, plan.table)
    # Only of a dropped table past its retention everything may expire, as the drop ordered.
    ended = state is not None and has_ended(
        around.sources.config, around.proof.world, state, plan, facts.busy, around.now
    )
    # Files outside all tables may depart anywhere: no purge deletes them outside the roots.
    refused = around.roots.named([path for path in case.paths if around.owners.owners(path)])
    unreadable = [*case.errors(case.members), *filter(None, [facts.bases[plan.id].error])]
    if isinstance(unread := facts.stated.get(plan.table), MeltlineError):
        unreadable.append(f"{unread.message} ({unread.found})")
    return {
        **case.common_measures(refused, unreadable),
        **(_missing(plan) if state is None else _table_measures(case, facts, state, ended=ended)),
        "planned_main": int(MAIN in plan.refs and not ended),
        "planned_leased": _text(facts.leased(plan.table_uuid).intersection(plan.snapshots)),
        "planned_unknown": paths.intersection(facts.unknown),
        "head_files_lost": paths & around.proof.lost_by_heads,
        "delete_ratio": 0.0 if ended else _delete_ratio(around.proof, plan, facts.distinct),
        "growth": 0.0 if ended else _growth(around.sources.plans, plan),
        "manifests_read": len(around.proof.scan.live_files),
    }


_UNKNOWABLE = (
    "planned_heads",
    "planned_ref_targets",
    "planned_held",
    "planned_guarded",
    "planned_unread",
    "planned_writer_walks",
    "drop_evidence_lost",
)


def _missing(plan: Plan) -> Measures:
    """Returns the facts about a missing table: everything that cannot be known refuses the plan."""
    return {
        **dict.fromkeys(_UNKNOWABLE, ()),
        "planned_young_refs": plan.refs,
        "planned_in_window": _text(plan.snapshots),
        "planned_not_in_metadata": _text(plan.snapshots),
        "head_totals_differ": ["the table is not there"],
    }


def _table_measures(
    case: Case, facts: LedgerFacts, state: TableMetadata, *, ended: bool
) -> Measures:
    """Returns facts from the table's metadata. `ended`: it is dropped and past its retention."""
    plan, planned, around = case.plan, set(case.plan.snapshots), case.around
    base = facts.bases[plan.id]
    remaining_refs = {
        ref.snapshot_id: ref.name for ref in state.refs.values() if ref.name not in plan.refs
    }
    return {
        "planned_heads": _text(planned & staying_heads(plan, state.heads)),
        "planned_ref_targets": [remaining_refs[sid] for sid in planned & remaining_refs.keys()],
        "planned_young_refs": [
            name for name in plan.refs if not _is_past_age(state, name, plan, ended=ended)
        ],
        "planned_held": _text(planned) if around.is_held(state) else (),
        "planned_guarded": sorted(case.owners & around.guarded),
        "planned_unread": _text(planned_unread(state, plan)),
        **(_NOTHING_PROMISED if ended else _promised(case, facts, state)),
        "drop_evidence_lost": () if ended else _text(facts.lost_drops(state, planned)),
        "planned_not_in_metadata": _text(planned - (state.snapshots.keys() & base.snapshots)),
        "head_totals_differ": [
            *differing_heads(
                plan,
                base,
                state,
                around.proof.totals,
                facts.indexed,
                is_trusted=state.uuid in around.proof.trusted,
            )
        ],
    }


def _is_past_age(state: TableMetadata, name: str, plan: Plan, *, ended: bool) -> bool:
    """Returns whether a ref exists, and plain Iceberg would expire it by now.

    For a dropped table past its retention (`ended`), branches expire at any age; tags keep theirs.
    """
    ref = state.refs.get(name)
    if ref is None:
        return False
    if ended and ref.is_branch:
        return True
    limit, default = ref.max_ref_age_ms, state.properties.get("history.expire.max-ref-age-ms", "")
    if limit is None and default.isdecimal():
        limit = int(default)
    age = plan.as_of - state.snapshots[ref.snapshot_id].committed_at
    return limit is not None and age > timedelta(milliseconds=limit)


def _promised(case: Case, facts: LedgerFacts, state: TableMetadata) -> Measures:
    """Returns planned snapshots that the window promises, or that a writer still walks over.

    The window is the policy's, or the plan's if that is longer, and never shorter than the readers'
    grace. Only the metadata log decides.
    """
    plan, planned = case.plan, frozenset(case.plan.snapshots)
    levels, account = case.around.levels(state), case.around.sources.config.account
    alone = effective_retention(account, levels, remembered(facts.policies, levels, state.uuid))
    policy = with_stated(account, levels, alone, facts.stated.get(plan.table))
    in_window = planned  # all of a dropped table's, until its retention ends
    if policy.window is not None and not is_dropped_name(state.name.namespace):
        window = max(policy.window, account.reader_grace)
        start = min(plan.as_of - window, plan.window_start or plan.as_of)
        in_window &= promised_since(state, plan.refs, start) | newest_of_branches(
            state, plan.refs, policy.least_snapshots
        )
    writers_since = plan.as_of - policy.writer_keep
    return {
        "planned_in_window": _text(in_window),
        **({} if policy.expires else {"planned_young_refs": plan.refs}),
        "planned_writer_walks": _text(cut_off(state, planned, plan.refs, writers_since)),
    }


def _text(ids: Collection[int]) -> list[str]:
    return [str(snapshot_id) for snapshot_id in sorted(ids)]


def _remains(proof: Proof, plan: Plan) -> int:
    """Returns the bytes that certainly remain: those of the largest remaining snapshot."""
    state = proof.world.of(plan.table_uuid, plan.table)
    metadata = proof.metadata_bytes(plan.table_uuid) + (state.metadata_bytes if state else 0)
    return metadata + proof.most_live_bytes(plan.table_uuid)


def _ratio(plan: Plan, remains: int) -> float:
    return plan.bytes / max(1, plan.bytes + remains)


def _delete_ratio(proof: Proof, plan: Plan, distinct: Mapping[str, int]) -> float:
    """Returns the share of a table's bytes that a plan removes.

    The largest remaining snapshot is a lower bound of what remains. Only if that bound exceeds the
    limit, the distinct files of all remaining snapshots are summed up.
    """
    remains = _remains(proof, plan)
    if plan.table_uuid in distinct:
        remains += distinct[plan.table_uuid] - proof.most_live_bytes(plan.table_uuid)
    return _ratio(plan, remains)


def _growth(ledger: PlanReader, plan: Plan) -> float:
    """Compares the plan's size with the median of the last plans; 0 if these are too few."""
    earlier = ledger.sizes_before(plan, _HISTORY)
    if len(earlier) < _ENOUGH_HISTORY:
        return 0.0
    return plan.bytes / max(1.0, median(earlier))


def has_ended(
    config: Config,
    world: LiveCatalogs,
    state: TableMetadata,
    plan: Plan,
    busy: Collection[str],
    now: datetime,
) -> bool:
    """Returns whether a plan is for a dropped table whose frozen retention has ended.

    All of this must be true, by the catalog and the metadata file as the gate has just read them:

    * The hot catalog lists the table among the dropped ones, and at the metadata that was read.
    * That metadata records the drop. The retention that was frozen then has ended by the plan's
      `as_of` and by the wall clock, so that no undrop is possible any more.
    * No snapshot of it has a lease or a purge veto. No hold is on it, on the namespaces that it
      was dropped from, or on the account.

    Args:
        config: Names the hot catalog, and the namespace with the account's properties.
        world: The catalogs.
        state: The planned table, as it is now.
        plan: The plan.
        busy: Tables with a leased snapshot or a purge veto.
        now: Wall clock.
    """
    drop = _listed_drop(world.listings.get(config.hot), state)
    if drop is None or not drop.is_over(min(plan.as_of, now)):
        return False
    levels = world.levels(state, config.ledger_namespace)
    held = any(is_held(properties, now) for _, properties in levels)
    return not held and state.uuid not in busy


def _listed_drop(listing: CatalogListing | None, state: TableMetadata) -> Drop | None:
    """Returns a table's record of its drop, if a catalog lists it as dropped, at this metadata."""
    if listing is None or not is_dropped_name(state.name.namespace):
        return None
    if listing.of(state.name) != CatalogEntry(state.name, state.metadata_location):
        return None
    return read_drop(state.name.catalog, state.properties)


_KAFKA, _SPARK = "kafka.connect.offsets.", "spark.sql.streaming.queryId"
_Sign = tuple[str, ...]


def promised_since(state: TableMetadata, refs: Collection[str], start: datetime) -> set[int]:
    """Returns snapshots that a read at an instant from `start` on could need.

    Args:
        state: The table as it is now.
        refs: The refs that would be removed.
        start: The beginning of the window.
    """
    lines = state.snapshot_log
    # In both log order and time order: with wrong clocks, engines read the log by time.
    promised = {
        log_entry.snapshot_id
        for log in (lines, sorted(lines, key=lambda each: each.at))
        for log_entry, following in zip_longest(log, log[1:])
        if following is None or following.at >= start
    }
    promised |= {sid for sid, snapshot in state.snapshots.items() if snapshot.committed_at >= start}
    return promised | _replaced_late(state, refs, start)


def _replaced_late(state: TableMetadata, refs: Collection[str], start: datetime) -> set[int]:
    """Returns snapshots of side branches whose successor was committed inside the window."""
    return {
        parent.snapshot_id
        for name, head in state.heads.items()
        if name != MAIN and name not in refs
        for child, parent in pairwise(state.ancestry(head))
        if child.committed_at >= start
    }


def newest_of_branches(state: TableMetadata, refs: Collection[str], least: int) -> set[int]:
    """Returns the newest snapshots of each remaining branch, `least` of each."""
    return {
        snapshot.snapshot_id
        for name, head in state.heads.items()
        if name not in refs
        for snapshot in islice(state.ancestry(head), least)
    }


def planned_unread(state: TableMetadata, plan: Plan) -> set[int]:
    """Returns planned snapshots between a remaining consumer and the head of a remaining branch."""
    consumers = [
        snapshot_id
        for name, snapshot_id in state.tags.items()
        if name.startswith(CONSUMER_TAG) and name not in plan.refs
    ]
    later = _descendants(state, consumers) if consumers else set[int]()
    needed = {
        snapshot.snapshot_id
        for head in staying_heads(plan, state.heads)
        for snapshot in takewhile(lambda met: met.snapshot_id in later, state.ancestry(head))
    }
    return needed & set(plan.snapshots)


def _descendants(state: TableMetadata, of: Sequence[int]) -> set[int]:
    """Returns these snapshots and all their descendants."""
    children: dict[int | None, list[int]] = {}
    for snapshot in state.snapshots.values():
        children.setdefault(snapshot.parent_id, []).append(snapshot.snapshot_id)
    descendants: set[int] = set()
    waiting = list(of)
    while waiting:
        snapshot_id = waiting.pop()
        if snapshot_id not in descendants:
            descendants.add(snapshot_id)
            waiting += children.get(snapshot_id, [])
    return descendants


def cut_off(
    state: TableMetadata, planned: Collection[int], refs: Collection[str], since: datetime
) -> set[int]:
    """Returns planned snapshots that a streaming writer would miss between a head and its mark.

    It repeats the engines' walks, and derives them from what they meet, not from what is kept.

    Args:
        state: The table as it is now.
        planned: The snapshots that would be removed.
        refs: The refs that would be removed: no writer walks from them any more.
        since: Writers whose mark is older are inactive.
    """
    missed: set[int] = set()
    for branch, head in state.heads.items():
        line = [] if branch in refs else list(state.ancestry(head))
        if any(snapshot.snapshot_id in planned for snapshot in line):
            missed |= _missed_on(line, planned, since)
    return missed


def _missed_on(line: Iterable[Snapshot], planned: Collection[int], since: datetime) -> set[int]:
    """Returns the same for the writers of one branch, walked from its head."""
    missed: set[int] = set()
    met: set[_Sign] = set()
    gaps: list[int] = []
    for snapshot in line:
        if snapshot.snapshot_id in planned:
            gaps.append(snapshot.snapshot_id)
        signs = _signs(snapshot)
        if gaps and snapshot.committed_at >= since and not all(_ended(s, met) for s in signs):
            missed.update(gaps)
            gaps.clear()
        met |= signs
    return missed


def _ended(sign: _Sign, met: Collection[_Sign]) -> bool:
    """Returns whether a writer's walk has ended earlier: at its own sign, or at its job's."""
    return sign in met or sign[:2] in met


def _signs(snapshot: Snapshot) -> set[_Sign]:
    """Returns signs at which writers stop: engine, id, and a Flink operator if known."""
    summary: Mapping[str, str] = dict(snapshot.summary)
    signs: set[_Sign] = {("kafka", key) for key in summary if key.startswith(_KAFKA)}
    if _SPARK in summary:
        signs.add(("spark", summary[_SPARK]))
    if "flink.max-committed-checkpoint-id" in summary and "flink.job-id" in summary:
        parts = [summary[key] for key in ("flink.job-id", "flink.operator-id") if key in summary]
        signs.add(("flink", *parts))
    return signs
