"""Doctor: everything that keeps a table out, holds a run back, or endangers files."""

import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.app.catalog.management import described, never_read, vouched_for
from meltline.app.catalog.registrations import load_standing
from meltline.app.catalog.tables import (
    READ_ONLY_TYPES,
    ObservedTable,
    TableRetention,
    is_ledger,
    keep_sets,
    observed_table,
)
from meltline.app.clone.gc_guard import may_share
from meltline.app.doctor.cold_findings import cold_findings
from meltline.app.doctor.drop_risks import drop_risks
from meltline.app.doctor.exposed_files import open_files
from meltline.app.drop.external_drops import gone_tables
from meltline.app.ground.preconditions import require_generation, require_not_behind
from meltline.app.retention.consumer_findings import consumer_findings
from meltline.app.retention.holds import ending_soon
from meltline.app.retention.writers import writer_advice
from meltline.app.safety.roots import withheld_findings
from meltline.app.services import ReadContext
from meltline.domain.clone.clones import is_guarded
from meltline.domain.deletion.plan import PlanState
from meltline.domain.errors import CatalogUnlistable, MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.units import format_instant
from meltline.ports import CatalogEntry


@dataclass(frozen=True)
class Finding:
    """One thing to know. Level is `error`, `warning` or `info`."""

    level: str
    code: str
    object: str
    message: str
    fix: str


def examine(context: ReadContext) -> list[Finding]:
    """Looks at everything that can be looked at without a JVM; the worst first."""
    findings: list[Finding] = []
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
    for check in (_ledger, _incidents, _tables, _plans, _readers):
        findings += check(context)
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(findings, key=lambda f: (order[f.level], f.code, f.object))


def _error(code: str, error: MeltlineError) -> Finding:
    message = f"{error.message}: {error.found}" if error.found else error.message
    return Finding("error", code, error.object, message, error.next)


def _refusals(code: str, check: Callable[[], None]) -> list[Finding]:
    try:
        check()
    except CatalogUnlistable:
        return []  # found again, with its own words, among the catalogs
    except MeltlineError as refused:
        return [_error(code, refused)]
    return []


def _ledger(context: ReadContext) -> list[Finding]:
    findings = _refusals("ledger_out_of_step", lambda: require_generation(context))
    findings += _refusals("clock_behind", lambda: require_not_behind(context, behind=timedelta(0)))
    switch = context.control.switch.stopped()
    if switch is not None:
        findings.append(
            Finding(
                "warning",
                "stopped",
                "meltline stop",
                f"{switch.who} holds everything back: {switch.reason}",
                "`meltline go`",
            )
        )
    return findings


def _tables(context: ReadContext) -> list[Finding]:
    findings: list[Finding] = []
    tables: list[ObservedTable] = []
    listed: list[CatalogEntry] = []
    if context.config.catalogs[context.config.hot].type in READ_ONLY_TYPES:
        findings.append(
            Finding(
                "error",
                "catalog_not_managed",
                context.config.hot,
                "tables of a REST catalog are read for reachability, never expired",
                "use a catalog of type sql, hive or glue as hot",
            )
        )
    for catalog in context.catalogs.values():
        try:
            listing = catalog.listing()
        except CatalogUnlistable as refused:
            findings.append(_error("catalog_unlistable", refused))
            continue
        listed += listing.entries
        for pointer in listing.entries:
            if is_ledger(context, pointer.name):
                continue
            try:
                state = load_standing(context, pointer.name, pointer.metadata_location)
                tables.append(observed_table(context, state, listing))
            except MeltlineError as refused:
                findings.append(_error("table_unreadable", refused))
    findings += _seen_before(context)
    findings += _words(context, listed, {table.state.name for table in tables})
    retentions = keep_sets(context, tables, context.clock.now())
    findings += _policies(retentions, context.clock.now())
    for reader in consumer_findings(context, retentions):
        findings.append(Finding("warning", reader.code, reader.object, reader.message, reader.fix))
    findings += _holds(context, tables)
    for risk in drop_risks(context, [table.state for table in tables]):
        findings.append(Finding("info", risk.code, risk.object, risk.message, risk.fix))
    for cold in cold_findings(context, tables):
        findings.append(Finding(cold.level, cold.code, cold.object, cold.message, cold.fix))
    for held in withheld_findings(context, [t.state for t in tables if t.managed]):
        findings.append(Finding("warning", held.code, held.object, held.message, held.fix))
    sharing = may_share(context, [table.state for table in tables])
    for table in tables:
        findings += _who_else_deletes(table.state, table.state.uuid in sharing)
    return findings


def _seen_before(context: ReadContext) -> Iterable[Finding]:
    for table in context.control.registrations.all():
        if table.status == "unreadable":
            yield Finding(
                "error",
                "table_skipped",
                str(table.name),
                table.error,
                "restore what is missing; until then nothing of its group is touched",
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
    context: ReadContext, listed: Sequence[CatalogEntry], readable: Collection[TableName]
) -> Iterable[Finding]:
    """Tables that were never read and hold all purging back, and for which a person vouches."""
    rows = context.control.registrations.all()
    broken = {row.name for row in rows if row.status == "unreadable"}
    unread = [
        pointer for pointer in listed if pointer.name in broken or pointer.name not in readable
    ]
    unread = [
        pointer for pointer in never_read(rows, unread) if not is_ledger(context, pointer.name)
    ]
    vouched = vouched_for(context.control.decisions, context.store, unread)
    names = sorted(str(pointer.name) for pointer in set(unread) - vouched)
    if names:
        yield Finding(
            "error",
            "purging_held_back",
            ", ".join(names),
            "never read completely as they stand, so they may refer to any file and nothing is "
            "purged; a word for an earlier metadata file, or by an earlier release, does not count",
            "make them readable; where none refers to another table's files: "
            f"`meltline detach {shlex.join(names)} --reason TEXT`",
        )
    for word in context.control.decisions.vouched():
        if CatalogEntry(word.table, word.location) in vouched:
            yield Finding(
                "info",
                "table_vouched_for",
                str(word.table),
                f"{word.who} vouches for {described(word)} since {format_instant(word.at)}: "
                f"{word.reason}",
                f"`meltline attach {shlex.quote(str(word.table))}` takes it back",
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


def _holds(context: ReadContext, tables: list[ObservedTable]) -> Iterable[Finding]:
    for hold in ending_soon(tables, context.clock.now()):
        yield Finding(
            "warning",
            "hold_ends_soon",
            hold.subject,
            hold.notice,
            "`meltline hold add` with a later end, if it must stay",
        )


def _who_else_deletes(state: TableMetadata, shares: bool) -> Iterable[Finding]:
    name = str(state.name)
    if state.engine_deletes_metadata:
        yield Finding(
            "info",
            "engine_deletes_metadata",
            name,
            "its engine deletes old metadata files itself; Meltline leaves them alone",
            "unset write.metadata.delete-after-commit.enabled to have them kept in failsafe",
        )
    if shares and not is_guarded(state.properties):
        yield Finding(
            "warning",
            "shared_files_unguarded",
            name,
            "it shares files with another table, and other tools may still expire or purge it",
            "set gc.enabled=false on it",
        )


def _incidents(context: ReadContext) -> Iterable[Finding]:
    for incident in context.control.incidents.all():
        yield Finding("error", "incident", incident.object, incident.message, incident.next)


def _plans(context: ReadContext) -> Iterable[Finding]:
    for plan in context.control.plans.find(states=[PlanState.APPLYING]):
        yield Finding(
            "warning",
            "plan_unfinished",
            plan.id,
            f"a {plan.kind} of {plan.table} was begun and not finished",
            "the next run finishes it",
        )
    for plan in context.control.plans.find(states=[PlanState.REFUSED], limit=20):
        times = f", by {plan.repeats + 1} runs" if plan.repeats else ""
        yield Finding(
            "info",
            "plan_refused",
            plan.id,
            f"{plan.table}: {plan.note}{times}",
            f"`meltline gate {plan.id}` judges it again",
        )


def _readers(context: ReadContext) -> Iterable[Finding]:
    for path in open_files(context.config):
        yield Finding(
            "warning",
            "open_to_others",
            str(path.path),
            path.who,
            f"`{path.fix}`",
        )
