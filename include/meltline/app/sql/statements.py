"""Executes SQL statements, by the same steps as the commands.

`meltline sql`, the Python API and notebooks call `run_statement`. It parses the text, sends Spark's
own statements to Spark with rewritten names, and runs the others here. It also protects the
archive's catalog, which a session may know from earlier use: cold has the only copy of dropped
chunks and of archived history.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from secrets import token_hex
from uuid import uuid4

from meltline.app.catalog.resolve import load_table, require_changeable
from meltline.app.catalog.tables import levels_around, observed_table, retention_of
from meltline.app.chunks.manual_runs import request_by_hand
from meltline.app.chunks.reading.complete_rows import CompleteRows, complete_rows
from meltline.app.retention.leases import leased
from meltline.app.run.recap import recap
from meltline.app.run.recorded import run_recorded
from meltline.app.run.run_document import TableResult
from meltline.app.run.summary import Summary
from meltline.app.services import OpenServices, ReadContext
from meltline.app.sql.guarded_statements import GuardedStatement, guarded_statement
from meltline.app.sql.lakets.dispatch import refused, run_call
from meltline.app.sql.lakets.session import Session
from meltline.app.sql.naming import container_name, full_name, full_table_name
from meltline.app.sql.object_statements import run_without_spark
from meltline.app.sql.statement_results import StatementResult, unsupported
from meltline.app.time_travel.query import Located, SchemaChoice, locate
from meltline.domain.errors import (
    CatalogReadOnly,
    NameConflict,
    StatementRefused,
    StatementUnsupported,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName, quote_part, quoted, selected
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.retention.longer_window import LongerWindow
from meltline.domain.retention.policy import TRANSIENT, Retention, effective_retention
from meltline.domain.retention.policy_rules import require_allowed, require_new
from meltline.grammar import parse
from meltline.grammar.references import (
    TableReference,
    executed_in,
    is_worked_out,
    names_in,
    tables_read,
    texts_in,
)
from meltline.grammar.statements import CreateTable, FunctionCall, Name, Query, TimeClause, Vacuum
from meltline.grammar.tables import Edit, replaced
from meltline.grammar.tokens import tokens_of
from meltline.grammar.writes import BEGINNINGS, writes_of
from meltline.ports import (
    CatalogListing,
    ReadColumn,
    ReadRows,
    SqlEngine,
    StatementRecord,
    StatementState,
    TableView,
)

_LEASE = timedelta(minutes=10)
_LONGEST_ID = 255
_SHOWN = 80  # characters of a statement that an error repeats


@dataclass(frozen=True)
class StatementRequest:
    """A statement, and its execution options.

    Attributes:
        text: The statement.
        standing: The catalog, and the namespace in it, that completes its names.
        schema: The columns under which old rows are shown.
        limit: Maximum number of rows to fetch; None is all.
        statement_id: Its id for later reference; empty for a new one.
        fetch: Whether rows are fetched at once, under a lease, or left for Spark to fetch.
    """

    text: str
    standing: ObjectName
    schema: SchemaChoice = SchemaChoice.CURRENT
    limit: int | None = None
    statement_id: str = ""
    fetch: bool = True


@dataclass(frozen=True)
class Prepared:
    """A statement in Spark's dialect.

    Attributes:
        kind: Its first word.
        pins: Snapshots that it reads, which are kept meanwhile.
        views: Views in its text for some of them, or for all rows of a table, by name.
        guard: Runs it if chunks of its target were dropped.
    """

    kind: str
    text: str
    pins: tuple[tuple[TableName, int], ...] = ()
    views: Mapping[str, TableView] = field(default_factory=dict)
    guard: GuardedStatement | None = None


def run_statement(
    context: ReadContext,
    engine: Callable[[], SqlEngine],
    request: StatementRequest,
    services: OpenServices,
) -> StatementResult:
    """Executes one statement.

    Args:
        context: Where the objects are.
        engine: Starts the SQL engine; called only for statements that need it.
        request: The statement.
        services: Starts the services that copy, expire and delete; called only for statements that
            do.

    Raises:
        SqlUnreadable: It is a statement of Meltline's and invalid; names the position.
        StatementUnsupported: It is parsed, but this release cannot execute it.
        StatementRefused: Spark refused it.
        MeltlineError: Whatever its step raises.
    """
    statement = parse(request.text)
    if isinstance(statement, Query):
        return _query(context, engine, request, statement)
    if isinstance(statement, CreateTable):
        return _create_table(context, engine, request, statement)
    if isinstance(statement, Vacuum):
        table = full_table_name(context, request.standing, statement.table)
        return vacuum(context, services, table, statement.hours, dry_run=statement.dry_run)
    if isinstance(statement, FunctionCall):
        return run_call(Session(context, request.standing, services, engine), statement)
    return run_without_spark(context, request.standing, statement)


def _query(
    context: ReadContext, engine: Callable[[], SqlEngine], request: StatementRequest, query: Query
) -> StatementResult:
    if query.views:
        raise unsupported(f"more than SELECT * of MD_INFORMATION_SCHEMA.{query.views[0].upper()}")
    if query.calls:
        raise refused(query.calls[0])
    require_archive_unchanged(context, request.standing, query.text, query.kind)
    now = context.clock.now()  # one for all its clauses
    locations = [_located(context, request, clause, now) for clause in query.clauses]
    views, edits, unique = dict[str, TableView](), list[Edit](), token_hex(4)
    for number, (clause, located) in enumerate(zip(query.clauses, locations, strict=True)):
        name, view = f"meltline_past_{unique}_{number}", located.view(request.schema)
        if view is not None:
            views[name] = view
        edits.append(_edit(clause, located, name if view else ""))
    pins = [(located.table, located.resolved.snapshot_id) for located in locations]
    complete = complete_tables(
        context, request.standing, query.text, query.kind, lambda name: engine().knows(name)
    )
    for table in complete:
        views[table.view] = table.rows.read
        edits.extend(table.edits)
        pins.append((table.rows.read.table, table.rows.read.hot.snapshot_id))
    guard = guarded_statement(context, request.standing, query.text, query.kind, tuple(edits))
    text = replaced(query.text, edits)
    kept = tuple((table, snapshot) for table, snapshot in pins if snapshot is not None)
    outcome = _run(context, engine(), request, Prepared(query.kind, text, kept, views, guard))
    return replace(outcome, warnings=notices(complete))


def _located(
    context: ReadContext, request: StatementRequest, clause: TimeClause, now: datetime
) -> Located:
    table = full_table_name(context, request.standing, clause.table)
    return locate(context, table, clause.point.at(now))


def _edit(clause: TimeClause, located: Located, view: str) -> Edit:
    """Replaces a time-travel clause by Spark's own, or the table by a view with other columns."""
    if not view:
        return clause.clause_start, clause.end, f"VERSION AS OF {located.resolved.snapshot_id}"
    alias = f" AS {quoted(clause.table[-1])}" if clause.needs_alias else ""
    return clause.name_start, clause.end, f"{view}{alias}"


def _create_table(
    context: ReadContext,
    engine: Callable[[], SqlEngine],
    request: StatementRequest,
    create: CreateTable,
) -> StatementResult:
    require_archive_unchanged(context, request.standing, create.text, "CREATE")
    name = full_name(context, request.standing, ObjectKind.TABLE, create.name)
    warnings = _checked(context, name, create.policies) if create.policies else ()
    outcome = _run(context, engine(), request, Prepared("CREATE", create.text))
    return replace(outcome, warnings=warnings)


def _checked(
    context: ReadContext, name: ObjectName, policies: Mapping[str, str]
) -> tuple[str, ...]:
    """Returns the risks of a new table's policies.

    Raises:
        RetentionOutOfRange: The profile does not allow one.
        TransientImmutable: A table with this name exists, so it is not new.
    """
    account = context.config.account
    listing = require_changeable(context, name).listing()
    around = levels_around(context, ObjectName(name.catalog, name.namespace), listing)
    levels = [(str(name), policies), *around]
    require_allowed(account.profile, name, policies, levels)
    if TRANSIENT in policies and listing.of(name.table_name):  # CREATE OR REPLACE keeps its history
        state = load_table(context, name.table_name)
        require_new(name, state, [], state.properties.get(TRANSIENT), policies[TRANSIENT])
    return effective_retention(account, levels).warnings


def _run(
    context: ReadContext, engine: SqlEngine, request: StatementRequest, prepared: Prepared
) -> StatementResult:
    id = _new_id(context, request.statement_id)
    with _recorded(context, id, prepared.kind), ExitStack() as leases:
        for table, snapshot_id in prepared.pins:
            leases.enter_context(leased(context, table, snapshot_id, _LEASE, audited=False))
        try:
            frame = _frame(engine, id, prepared)
            if not request.fetch:
                return StatementResult(id, frame=frame)
            return StatementResult(id, read=engine.fetch(frame, request.limit))
        except StatementRefused as refused:
            raise _in_own_words(refused, request.text, prepared) from refused


def _frame(engine: SqlEngine, id: str, prepared: Prepared) -> object:
    if prepared.guard is None:
        return engine.run(prepared.text, id, prepared.views)
    return prepared.guard.run(lambda text: engine.run(text, id, prepared.views))


def _in_own_words(refused: StatementRefused, text: str, prepared: Prepared) -> StatementRefused:
    """Rewrites Spark's error for the statement as written, without internal view names."""
    said = refused.found
    for name, view in prepared.views.items():
        said = said.replace(name, str(view.table))
    line = " ".join(text.split())
    return StatementRefused(
        refused.message,
        object=line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…",
        expected=refused.expected,
        found=said,
        next=refused.next,
    )


@contextmanager
def _recorded(context: ReadContext, id: str, kind: str) -> Iterator[None]:
    """Records a statement's begin, and its end with the state: a point for AT and BEFORE."""
    began = context.clock.now()

    def record(state: StatementState) -> None:
        ended = None if state is StatementState.RUNNING else context.clock.now()
        row = StatementRecord(id, kind, context.who, state, began, ended)
        context.control.statements.save(row)

    record(StatementState.RUNNING)
    try:
        yield
    except BaseException:
        record(StatementState.FAILED)
        raise
    record(StatementState.COMPLETED)


def _new_id(context: ReadContext, statement_id: str) -> str:
    if not statement_id:
        return str(uuid4())
    is_unfit = (
        not statement_id.strip()
        or not statement_id.isprintable()
        or len(statement_id) > _LONGEST_ID
    )
    if not is_unfit and context.control.statements.get(statement_id) is None:
        return statement_id
    raise NameConflict(
        f"{statement_id!r} cannot be the id of a new statement",
        object=statement_id,
        expected="an id of its own",
        found="an empty, too long or unprintable one"
        if is_unfit
        else "the id of another statement",
        next="leave it out for a new one",
    )


_READS = frozenset(
    {"SELECT", "TABLE", "VALUES", "(", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "USE", "REFRESH"}
)
"""First keywords of statements that change nothing in a catalog."""
_MAKES = frozenset({"CREATE", "REPLACE", "CACHE"})
"""First keywords of statements that may read the archive to create something elsewhere."""


def require_archive_unchanged(
    context: ReadContext, standing: ObjectName, text: str, kind: str
) -> None:
    """Rejects a statement that may change the archive's catalog.

    In a statement that is neither a query nor a change of rows, every name counts that it does not
    read. EXECUTE IMMEDIATE counts as the statement that it executes. A name or statement that Spark
    computes from several texts or variables is rejected: it may be the archive's.

    Args:
        context: Which catalog the archive is.
        standing: Completes the statement's names.
        text: The statement.
        kind: Its first word.

    Raises:
        CatalogReadOnly: It names the archive, or may.
    """
    cold = context.config.cold
    if not cold or kind in _READS:
        return
    if kind not in BEGINNINGS and standing.catalog == cold:
        raise _refusal(cold)
    for executed in executed_in(text):
        first = tokens_of(executed)[0].text.upper()
        require_archive_unchanged(context, standing, executed, first)
    names = list(_changed(text, kind))
    for name in filter(None, names):
        if cold in (name[0], container_name(context, standing, name).catalog):
            raise _refusal(".".join(map(quote_part, name)))
    if kind in BEGINNINGS and all(names):
        return
    if is_worked_out(text):
        raise _refusal(cold, "a name or a statement that Spark works out")
    starts = tuple(f"{name}." for name in (cold, context.config.catalogs[cold].catalog_name))
    for said in texts_in(text):  # a name that Spark computes may be in a text
        if said.replace("`", "").startswith(starts):
            raise _refusal(said)


def _changed(text: str, kind: str) -> Iterator[Name]:
    """Yields the names of objects that a statement may change; empty if Spark computes one."""
    if kind in BEGINNINGS:
        yield from (write.target for write in writes_of(text))
        return
    read = {reference.start for reference in tables_read(text)} if kind in _MAKES else set[int]()
    yield from (name for start, name in names_in(text) if start not in read)


def _refusal(name: str, found: str = "a statement that may change the archive") -> CatalogReadOnly:
    return CatalogReadOnly(
        f"{name} is in the archive, where SQL only reads",
        object=name,
        expected="a statement that reads the archive, or changes another catalog",
        found=found,
        next="`meltline cold list` and `meltline chunks status` show what cold has; copy rows to "
        "a table of another catalog to change them",
    )


_READING = BEGINNINGS | {"SELECT", "TABLE", "CREATE", "EXPLAIN", "("}


@dataclass(frozen=True)
class CompleteTable:
    """A table that a statement reads completely, hot and cold.

    Attributes:
        references: Where the statement names it.
        rows: All its rows; every mention of a table reads the same ones.
        view: The view that replaces it; the name is unique.
    """

    references: Sequence[TableReference]
    rows: CompleteRows
    view: str

    @property
    def edits(self) -> Iterator[Edit]:
        """The edits that put the view into the statement."""
        for reference in self.references:
            alias = f" AS {quoted(reference.table[-1])}" if reference.needs_alias else ""
            yield reference.start, reference.end, f"{self.view}{alias}"


def complete_tables(
    context: ReadContext,
    standing: ObjectName,
    text: str,
    kind: str,
    is_there: Callable[[Name], bool],
) -> list[CompleteTable]:
    """Finds the tables that a statement reads completely; an existing table or view has precedence.

    Args:
        context: Where the tables are.
        standing: Completes the statement's names.
        text: The statement.
        kind: Its first word.
        is_there: Whether the session itself knows a table or view of a name; called only if a table
            without the suffix exists.

    Raises:
        StatementUnsupported: It writes to such a name.
        MeltlineError: Whatever `complete_rows` raises, NotChunked for a table without chunks.
    """
    suffix = context.config.chunks.all_suffix
    if not suffix or kind not in _READING or suffix not in text:
        return []
    named = _Names(context, standing, suffix, is_there)
    for write in writes_of(text) if kind in BEGINNINGS else ():
        if named.table(write.target) is not None:
            raise _read_only(write.target)
    references: dict[TableName, list[TableReference]] = {}
    for reference in tables_read(text):
        if (table := named.table(reference.table)) is not None:
            references.setdefault(table, []).append(reference)
    unique = token_hex(4)
    return [
        CompleteTable(of_table, complete_rows(context, table), f"meltline_all_{unique}_{number}")
        for number, (table, of_table) in enumerate(references.items())
    ]


@dataclass(frozen=True)
class _Names:
    """Resolves names with the suffix for all rows."""

    context: ReadContext
    standing: ObjectName
    suffix: str
    is_there: Callable[[Name], bool]

    def table(self, name: Name) -> TableName | None:
        """Returns the table whose rows a name means completely; None for other names."""
        plain = name[-1].removesuffix(self.suffix) if name else ""
        if not plain or plain == name[-1]:
            return None
        table = self._standing_table((*name[:-1], plain))
        return None if table is None or self.is_there(name) else table

    def _standing_table(self, name: Name) -> TableName | None:
        try:
            table = full_table_name(self.context, self.standing, name)
            self.context.catalogs[table.catalog].location(table)
        except (KeyError, TableNotFound, UsageInvalid):
            return None  # Spark resolves the name
        return table


def notices(tables: Collection[CompleteTable]) -> tuple[str, ...]:
    """Returns the notices of completely read tables."""
    return tuple(table.rows.notice for table in tables if table.rows.notice)


def _read_only(name: Name) -> StatementUnsupported:
    written = ".".join(name)
    return StatementUnsupported(
        f"{written} is what hot and cold have together, and is only read",
        object=written,
        expected="the table itself",
        found="its name for all rows",
        next="write to the table; docs/chunks.md says what late rows can do",
    )


_HOUR = timedelta(hours=1)
_COUNTS = (
    "snapshots_archived",
    "snapshots_expired",
    "files_departed",
    "bytes_departed",
    "files_purged",
    "bytes_purged",
)
_TYPES: Mapping[str, str] = {
    "table": "string",
    "retained_hours": "bigint",
    **dict.fromkeys(_COUNTS, "bigint"),
    "state": "string",
    "summary": "string",
}
_NOT_MANAGED = "not managed"


def vacuum(
    context: ReadContext,
    services: OpenServices,
    table: TableName,
    hours: int | None,
    *,
    dry_run: bool,
) -> StatementResult:
    """Runs the chain over one table, as `meltline run --tables` does.

    Args:
        context: Where the table is.
        services: Called once the run is known to be allowed.
        table: The table.
        hours: How long superseded data is kept this time; None is as its policy says.
        dry_run: Only report the effects.

    Raises:
        RetentionOutOfRange: The hours are fewer than the policy's.
        UsageInvalid: A run cannot be restricted to this table.
        CatalogReadOnly: It may not be changed here.
        MeltlineError: The run cannot begin, or the table cannot be read.
    """
    name = ObjectName(table.catalog, table.namespace, table.name)
    listing = require_changeable(context, name).listing()
    observed = observed_table(context, load_table(context, table), listing)
    _require_alone(table, listing)
    policies = context.control.policies.all()
    retention = retention_of(context.config.account, observed, policies)
    longer = None if hours is None else LongerWindow.of_hours(table, hours, retention)
    effective = retention if longer is None else longer.over(table, retention)

    request = replace(request_by_hand(context.clock.now(), table), dry_run=dry_run)
    opened = services("vacuum", request.run_id, judges=not dry_run)
    summary = run_recorded(replace(opened, longer_window=longer), request)
    outcome = summary.tables.get(str(table), TableResult(str(table)))
    state = _state(summary, outcome) if observed.managed else _NOT_MANAGED
    return StatementResult(
        read=_rows(effective, outcome, state, "; ".join(recap(summary.as_json()))),
        warnings=(*summary.notes, *summary.notices, *filter(None, [outcome.next])),
        exit_code=summary.exit_code,
    )


def _require_alone(table: TableName, listing: CatalogListing) -> None:
    """Rejects a name that matches other tables too: a run selects tables by globs."""
    names = [entry.name for entry in listing.entries]
    matches = [name for name in names if name != table and selected(name, (str(table),))]
    if matches:
        raise UsageInvalid(
            f"a run over {table} would be one over other tables, too",
            object=str(table),
            expected="a name that no other table matches",
            found=", ".join(map(str, matches[:3])),
            next="`meltline run --tables` is for all of them, by their policies",
        )


def _state(summary: Summary, outcome: TableResult) -> str:
    if problem := outcome.failed or outcome.refused or outcome.skipped:
        return problem
    if summary.dry_run:
        return "dry run"
    if summary.not_armed is not None:
        return "not armed"
    return "waits for approval" if summary.approvals else "ok"


def _rows(retention: Retention, outcome: TableResult, state: str, words: str) -> ReadRows:
    hours = None if retention.window is None else retention.window // _HOUR
    counts = (getattr(outcome, key) for key in _COUNTS)
    columns = tuple(ReadColumn(name, type) for name, type in _TYPES.items())
    return ReadRows(columns, ((outcome.table, hours, *counts, state, words),))
