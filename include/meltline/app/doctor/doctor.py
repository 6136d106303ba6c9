"""Doctor: finds everything that excludes a table, blocks a run, or endangers files.

`meltline doctor` calls it. It combines the findings of its neighbours, and adds the checks that
need only a few lines.
"""

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

from meltline.app.catalog.listings import ListedCatalogs, list_catalogs
from meltline.app.catalog.management import (
    described,
    detached_with_reason,
    held_by_group,
    never_read,
    vouched_for,
)
from meltline.app.catalog.metadata import errors_of, metadata_of
from meltline.app.catalog.registrations import load_tables
from meltline.app.catalog.tables import (
    ObservedTable,
    TableRetention,
    is_ledger,
    keep_sets,
    observed_tables,
)
from meltline.app.clone.gc_guard import may_share
from meltline.app.doctor.chunk_findings import chunk_findings
from meltline.app.doctor.cold_findings import cold_findings
from meltline.app.doctor.drop_risks import drop_risks
from meltline.app.doctor.plan_findings import (
    expirer_findings,
    refused_findings,
    unfinished_findings,
)
from meltline.app.drop.external_drops import gone_tables
from meltline.app.observe.open_commits import obstacles
from meltline.app.ownership.foreign_findings import foreign_findings
from meltline.app.ownership.half_seen import half_seen_sentences
from meltline.app.ownership.roots import withheld_findings
from meltline.app.purge.approvals import Approvals
from meltline.app.purge.purge_claims import PurgePermits
from meltline.app.retention.consumer_findings import consumer_findings
from meltline.app.retention.holds import ending_soon
from meltline.app.retention.writers import writer_advice
from meltline.app.safety.arming import ArmingCheck
from meltline.app.safety.findings import Finding
from meltline.app.safety.preconditions import require_generation, require_not_behind
from meltline.app.safety.server_probe import is_probe_open, unmanaged_reason
from meltline.app.services import ReadContext
from meltline.app.status.status_findings import stopped_findings
from meltline.app.storage.guarded_tables import guarded_tables
from meltline.config.load import Config
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.clone.clones import is_guarded
from meltline.domain.deletion.withheld import MOVE_AWAY
from meltline.domain.errors import CatalogUnlistable, MeltlineError, StoreRefused
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.path_aliases import is_local, store_of
from meltline.domain.retention.profiles import Profile
from meltline.domain.safe_text import quote, quote_all
from meltline.domain.units import counted, format_files, format_instant
from meltline.file_permissions import let_in
from meltline.ports import UNREADABLE, CatalogEntry, GuardKind, ObjectReader, PlaceReader


def examine(context: ReadContext) -> list[Finding]:
    """Runs all checks that need no JVM, and returns their findings; the worst first."""
    if not context.control.database.is_prepared():
        return [
            Finding(
                "error",
                "not_initialised",
                str(context.config.path),
                "the control ledger is not prepared",
                "run `meltline init`",
            )
        ]
    checks = (_ledger, _incidents, _tables, _plans, _readers)
    return worst_first(chain.from_iterable(check(context) for check in checks))


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sorts findings: errors, then warnings, then by code."""
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(findings, key=lambda f: (order[f.level], f.code, f.object))


def _error(code: str, error: MeltlineError) -> Finding:
    message = f"{error.message}: {error.found}" if error.found else error.message
    return Finding("error", code, error.object, message, error.next)


def _refusals(code: str, check: Callable[[], None]) -> list[Finding]:
    try:
        check()
    except CatalogUnlistable:
        return []  # reported among the catalogs, with its own message
    except MeltlineError as refused:
        return [_error(code, refused)]
    return []


def _ledger(context: ReadContext) -> Iterable[Finding]:
    yield from _refusals("ledger_out_of_step", lambda: require_generation(context))
    yield from _refusals("clock_behind", lambda: require_not_behind(context, behind=timedelta(0)))
    switch = context.control.switch.stopped()
    if switch is not None:
        yield Finding(
            "warning",
            "stopped",
            "meltline stop",
            f"{switch.who} holds everything back: {switch.reason}",
            "`meltline go`",
        )
    yield from _armed(ArmingCheck.of(context))
    yield from stopped_findings(context)


def _armed(check: ArmingCheck) -> Iterable[Finding]:
    if check.is_sandbox:
        yield Finding(
            "info",
            "armed_sandbox",
            check.catalog.name,
            "armed: sandbox: runs delete here without `meltline arm`",
            f"take `sandbox: true` out of {check.config.path.name} if its files are needed",
        )
    try:
        refused = check.refusal()
    except CatalogUnlistable:
        return  # reported among the catalogs
    if refused is not None:
        message = f"{refused.message}: {refused.found}; runs plan and report, and delete nothing"
        yield Finding("warning", "not_armed", refused.object, message, refused.next)


def _tables(context: ReadContext) -> list[Finding]:
    listed = list_catalogs(context.catalogs.values())
    entries = [pointer for pointer in listed.entries if not is_ledger(context, pointer.name)]
    answers = load_tables(context, entries)
    loaded, errors = answers.values(), errors_of(answers)
    states, now = metadata_of(loaded), context.clock.now()
    tables = observed_tables(context, states, listed.listings)
    retentions = keep_sets(context, tables, now)
    sharing = may_share(context.control.registrations, context.control.decisions, states)
    rows = context.control.registrations.all()
    detached = detached_with_reason(context.control.decisions, context.store, rows, entries)
    return [
        *_catalogs(context.config, listed, context.catalogs[context.config.hot].hindrance),
        *_without_alarm(_left_out(loaded, context), detached),
        *_words(context, entries, {state.name for state in states}, errors),
        *_policies(retentions, now),
        *consumer_findings(context, retentions),
        *_holds(tables, now),
        *drop_risks(context, states),
        *cold_findings(context, tables),
        *chunk_findings(context, {t.state.uuid for t in tables if t.drop is None}),
        *rollup_findings(context.control.rollups.all()),
        *_obstacles(context.config, [table.state for table in tables if table.managed]),
        *half_seen_findings(context.control.places),
        *withheld_findings(context, [table.state for table in tables if table.managed]),
        *version_findings(context.store, [state.metadata_location for state in states]),
        *_guarded(context, tables),
        *_trusted(context),
        *foreign_findings(context.control.owners),
        *_without_clones(context.config.account.profile, states, sharing),
        *_who_else_deletes(states, sharing),
    ]


def _catalogs(config: Config, listed: ListedCatalogs, hindrance: str) -> Iterable[Finding]:
    hot = listed.listings.get(config.hot)
    reason = "" if hot is None else unmanaged_reason(config, config.hot, hot)
    if hot is not None and reason and is_probe_open(config, hot):
        message = f"its tables are read for reachability, never expired: {reason}"
        fix = (
            "the first run after that makes it, or `meltline doctor --probe-catalog "
            f"{quote(config.hot)}`"
        )
        yield Finding("warning", "probe_open", config.hot, message, fix)
    elif reason:
        yield Finding(
            "error",
            "catalog_not_managed",
            config.hot,
            f"its tables are read for reachability, never expired: {reason}",
            f"`meltline doctor --probe-catalog {quote(config.hot)}` finds out what its server does",
        )
    if hindrance:
        fix = "until then nothing of it is expired or purged: what cannot be held is kept"
        yield Finding("error", "catalog_not_managed", config.hot, hindrance, fix)
    for refused in listed.unlisted.values():
        yield _error("catalog_unlistable", refused)


def _obstacles(config: Config, managed: Sequence[TableMetadata]) -> Iterable[Finding]:
    names = {state.uuid: str(state.name) for state in managed}
    for uuid, obstacle in obstacles(config.catalogs, managed).items():
        yield Finding("warning", obstacle.code, names[uuid], obstacle.reason, obstacle.fix)


def _left_out(
    loaded: Iterable[TableMetadata | MeltlineError], context: ReadContext
) -> Iterable[Finding]:
    yield from (_error("table_unreadable", e) for e in loaded if isinstance(e, MeltlineError))
    yield from _seen_before(context)


def _without_alarm(
    findings: Iterable[Finding], detached: Mapping[TableName, str]
) -> Iterable[Finding]:
    """Lowers findings about tables that an operator has detached, with a reason, to information."""
    reasons = {str(name): reason for name, reason in detached.items()}
    for finding in findings:
        if reason := reasons.get(finding.object):
            message = f"{finding.message}; it is detached: {reason}"
            yield replace(finding, level="info", message=message)
        else:
            yield finding


def _seen_before(context: ReadContext) -> Iterable[Finding]:
    for table in context.control.registrations.all():
        if table.is_skipped:
            yield Finding(
                "error",
                "table_skipped",
                str(table.name),
                table.error,
                "restore what is missing; until then nothing of its group is touched"
                if table.status == UNREADABLE
                else "have its writer correct that, or, where totals alone are wrong, "
                f"`meltline trust {quote(table.name)} --manifests --reason TEXT`; until then its "
                "group waits, and no other",
            )
    for absent in gone_tables(context):
        since = f"it left its catalog (noticed {format_instant(absent.row.observed_at)})"
        ask = "which metadata file is its last? register that one with an engine"
        yield Finding(
            "warning",
            "table_gone",
            str(absent.row.name),
            f"{since}; its files are kept{': ' if absent.question else ''}{absent.question}",
            f"{ask}; nothing of it is deleted"
            if absent.question
            else "the next observation keeps it among the dropped tables; or register it again",
        )


def _words(
    context: ReadContext,
    listed: Sequence[CatalogEntry],
    readable: Collection[TableName],
    errors: Mapping[CatalogEntry, MeltlineError],
) -> Iterable[Finding]:
    """Tables that were never read and block all purging, and tables that are detached."""
    rows, decisions = context.control.registrations.all(), context.control.decisions
    broken = {row.name for row in rows if row.is_skipped}
    unread = never_read(rows, [p for p in listed if p.name in broken or p.name not in readable])
    vouched = vouched_for(decisions, context.store, unread)
    waiting = set(unread) - vouched - held_by_group(context, rows, errors)
    names = sorted(str(pointer.name) for pointer in waiting)
    if names:
        yield Finding(
            "error",
            "purging_held_back",
            ", ".join(names),
            "never read completely as they stand, so they may refer to any file and nothing is "
            "purged; a word for an earlier metadata file does not count",
            "make them readable; where none refers to another table's files: "
            f"`meltline detach {quote_all(names)} --reason TEXT`",
        )
    for word in decisions.vouched():
        if CatalogEntry(word.table, word.location) in vouched:
            yield Finding(
                "info",
                "table_vouched_for",
                str(word.table),
                f"{word.who} vouches for {described(word)} since {format_instant(word.at)}: "
                f"{word.reason}",
                f"`meltline attach {quote(word.table)}` takes it back",
            )


def _policies(retentions: Sequence[TableRetention], now: datetime) -> Iterable[Finding]:
    for target in retentions:
        for mark in writer_advice(target, now) if target.table.managed else ():
            yield Finding(
                "info",
                "writer_keeps_much",
                mark.object,
                mark.message,
                mark.fix,
            )
        for warning in target.retention.warnings:
            yield Finding(
                "warning",
                "policy_out_of_range",
                str(target.table.state.name),
                warning,
                "set a value inside the profile's limits",
            )


def _holds(tables: list[ObservedTable], now: datetime) -> Iterable[Finding]:
    for hold in ending_soon(tables, now):
        yield Finding(
            "warning",
            "hold_ends_soon",
            hold.subject,
            hold.notice,
            "`meltline hold add` with a later end, if it must stay",
        )


def _guarded(context: ReadContext, tables: Sequence[ObservedTable]) -> Iterable[Finding]:
    """Tables whose owners forbid deletions, with the bytes that this keeps."""
    for guard in guarded_tables(context, [table.state for table in tables]):
        yield Finding("info", "owner_guard", str(guard.name), guard.message, guard.fix)


def _trusted(context: ReadContext) -> Iterable[Finding]:
    names = {row.uuid: row.name for row in context.control.registrations.all()}
    for record in context.control.decisions.guards():
        if record.kind is GuardKind.TRUSTED and record.table_uuid in names:
            name = names[record.table_uuid]
            yield Finding(
                "info",
                "manifests_trusted",
                str(name),
                f"{record.who} trusts its manifests, and not its totals, since "
                f"{format_instant(record.at)}: {record.reason}",
                f"`meltline detach {quote(name)}` takes it back",
            )


def _without_clones(
    profile: Profile, states: Sequence[TableMetadata], sharing: Collection[str]
) -> Iterable[Finding]:
    """Tables whose files an engine shared, though the product has no clones to retain them for."""
    for state in states if not profile.has_clones else ():
        if state.uuid in sharing:
            yield Finding(
                "warning",
                "shared_without_clones",
                str(state.name),
                f"it shares files with another table, though profile {profile.name} has no clones: "
                "what it lets go of may be retained for that one",
                "copy its rows into a table of its own, or choose a profile with clones",
            )


def _who_else_deletes(
    states: Sequence[TableMetadata], sharing: Collection[str]
) -> Iterable[Finding]:
    for state in states:
        if state.engine_deletes_metadata:
            yield Finding(
                "info",
                "engine_deletes_metadata",
                str(state.name),
                "its engine deletes old metadata files itself; Meltline leaves them alone",
                "unset write.metadata.delete-after-commit.enabled to have them kept in failsafe",
            )
        if state.uuid in sharing and not is_guarded(state.properties):
            yield Finding(
                "warning",
                "shared_files_unguarded",
                str(state.name),
                "it shares files with another table, and other tools may still expire or purge it",
                "set gc.enabled=false on it; then, as Meltline only observes such a table, "
                f"`meltline attach {quote(state.name)} --despite-gc-disabled --reason TEXT`",
            )


def _incidents(context: ReadContext) -> Iterable[Finding]:
    for incident in context.control.incidents.all():
        yield Finding("error", "incident", incident.object, incident.message, incident.next)


def _plans(context: ReadContext) -> Iterable[Finding]:
    yield from unfinished_findings(context.control)
    yield from approval_findings(Approvals.of(context), PurgePermits.of(context))
    yield from refused_findings(context.control, context.clock.now())
    yield from expirer_findings(context.control, context.clock.now())


def _readers(context: ReadContext) -> Iterable[Finding]:
    for path in open_files(context.config):
        yield Finding(
            "warning",
            "open_to_others",
            str(path.path),
            path.who,
            f"`{path.fix}`",
        )


def approval_findings(approvals: Approvals, permits: PurgePermits) -> Iterator[Finding]:
    """Purges that wait for approval now."""
    for plan in approvals.awaited():
        if not permits.not_approved(plan):
            continue
        again = f"`meltline gate {plan.id}` where its verdict is over, "
        stale = permits.gate_refusals([plan])
        yield Finding(
            "warning",
            "approval_waiting",
            plan.id,
            f"{format_files(plan.files, plan.bytes)} of {plan.table} wait for a person's "
            f"word since {format_instant(plan.created_at)}",
            f"`meltline approval show {plan.id}`, {again if stale else ''}"
            f"then `meltline apply {plan.id} --approve REASON`",
        )


def half_seen_findings(places: PlaceReader) -> list[Finding]:
    """A warning per half-seen catalog, with the locations where nothing is deleted."""
    return [
        Finding("warning", "catalog_half_seen", name, text, MOVE_AWAY)
        for name, text in half_seen_sentences(places)
    ]


def rollup_findings(rollups: Sequence[Rollup]) -> Iterator[Finding]:
    """Rollups whose refresh fails, and rollups with rows that came too late for their bucket."""
    for rollup in rollups:
        if rollup.problem:
            since = rollup.last_refreshed_at
            stood = f"as it was at {format_instant(since)}" if since else "without a row"
            yield Finding(
                "error",
                "rollup_failed",
                rollup.name,
                f"it stands {stood}, and chunks of {rollup.source} wait: {rollup.problem}",
                f"`meltline rollups refresh {quote(rollup.name)}` tries again, as the next run "
                "does; "
                f"`meltline rollups drop {quote(rollup.name)}` lets the chunks go without it",
            )
        if rollup.missed:
            buckets = counted(rollup.buckets.count(rollup.missed), "bucket")
            yield Finding(
                "warning",
                "rollup_missed",
                rollup.name,
                f"rows of {rollup.source} came for {buckets} whose source was dropped before, the "
                f"newest until {format_instant(rollup.missed[-1].end)}: they keep their values",
                "write with `meltline sql`, which refuses such rows; or choose a longer drop age",
            )


def version_findings(store: ObjectReader, files: Iterable[str]) -> Iterator[Finding]:
    """Measures one file of each store, and reports stores that keep versions.

    A store that does not report versions, or does not answer, is skipped.

    Args:
        store: Measures the files.
        files: Existing files, such as the tables' metadata files.
    """
    one_of_each = {store_of(path): path for path in files if not is_local(path)}
    for name, path in sorted(one_of_each.items()):
        if _is_version(store, path):
            yield Finding(
                "warning",
                "keeps_versions",
                name.rstrip("/"),
                "this store keeps versions: what a purge deletes goes by its name, and its bytes "
                "stay there and are paid for, though reports count them as deleted",
                "add a lifecycle rule to the bucket that ends noncurrent versions after some days",
            )


def _is_version(store: ObjectReader, path: str) -> bool:
    try:
        shown = store.measure(path)
    except StoreRefused:
        return False  # reported where the table is read
    return shown is not None and shown.is_version


@dataclass(frozen=True)
class OpenFile:
    """A file or folder with permissions wider than `local-access` allows.

    Attributes:
        who: The groups that have access, and the kind of access.
        fix: The command that removes it.
    """

    path: Path
    who: str
    fix: str


def open_files(config: Config) -> Iterator[OpenFile]:
    """Checks the control ledger, pages of gates, and `meltline.yaml` if it contains a secret."""
    for path in _own(config):
        yield from _opened(path, config)
    yield from _opened(config.docs_folder, config, folder=True)


def _own(config: Config) -> Iterator[Path]:
    database = unquote(config.control.partition(":///")[2].partition("?")[0])
    if database and config.control.startswith("sqlite"):
        yield from (Path(f"{database}{part}") for part in ("", "-wal", "-shm"))
    if _holds_a_secret(config):
        yield config.path


def _holds_a_secret(config: Config) -> bool:
    try:
        text = config.path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return any(secret in text for secret in config.secrets)


def _opened(path: Path, config: Config, *, folder: bool = False) -> Iterator[OpenFile]:
    who = " and ".join(let_in(path, config.local_access, folder=folder))
    if who:
        words = ["chmod", *(["-R"] if folder else []), config.local_access.closed, str(path)]
        yield OpenFile(path, who, shlex.join(words))
