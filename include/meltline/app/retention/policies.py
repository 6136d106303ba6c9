"""Policies: sets, unsets and shows them. The catalog's property is authoritative.

The CLI and SQL call it, and the observe step to record them. The ledger remembers earlier values,
for changes made outside the rules. The rules themselves are in `domain/retention`. Requirements
ML-26 to ML-30, ML-32 to ML-34, TT-5 to TT-25, AR-26.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from meltline.app.catalog.commit import commit
from meltline.app.catalog.metadata import metadata_of
from meltline.app.catalog.registrations import load_tables
from meltline.app.catalog.resolve import load_table, require_changeable
from meltline.app.catalog.tables import (
    ObservedTable,
    is_ledger,
    keep_sets,
    levels_around,
    observed_table,
    observed_tables,
    remembered,
    retention_of,
)
from meltline.app.safety.audit import audit
from meltline.app.services import ReadContext
from meltline.config.load import Config
from meltline.domain.archive.cold import cold_policy
from meltline.domain.errors import CommitConflict, MeltlineError
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ACCOUNT, ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.consumers import consumer_keep
from meltline.domain.retention.policy import (
    COLD,
    COLD_RETENTION,
    CONSUMER_KEEP,
    DEEP,
    ENABLED,
    FAILSAFE,
    INFINITE,
    MIN_RETENTION,
    PROFILE,
    RETENTION,
    TRANSIENT,
    WRITER_KEEP,
    AccountPolicy,
    Levels,
    Remembered,
    Retention,
    effective_retention,
    is_enabled,
)
from meltline.domain.retention.policy_rules import (
    is_in_order,
    normal,
    require_allowed,
    require_new,
)
from meltline.domain.retention.profiles import Cadence
from meltline.domain.retention.stated_policies import with_stated
from meltline.domain.units import format_duration
from meltline.ports import CatalogEntry, CatalogListing

_COLD_DAYS = AccountPolicy.cold_retention_days
INHERITED = "inherited"
"""Displayed if an object has no policy of its own, but inherits it."""
APPLIED = "applied-retention-days"
"""The ledger's key for the retention that the last run applied (C-15)."""


@dataclass(frozen=True)
class PolicyLine:
    """One policy of one object.

    Attributes:
        key: The property.
        raw: The object's own value; None if it has none.
        effective: The value that applies: days, `infinite`, or a flag.
        source: The object with that value: a table, a namespace, `account` or `profile`.
        applied: The retention that the last run applied, if it was longer: until the next run, the
            past is readable as far back (TT-21, C-15). None if it is equal.
    """

    key: str
    raw: str | None
    effective: int | str | bool
    source: str
    applied: int | str | None = None


@dataclass(frozen=True)
class TableEffect:
    """Number of snapshots of a table that the next run would expire, before and after a change."""

    table: TableName
    expiring_before: int
    expiring_after: int


@dataclass(frozen=True)
class PolicyChange:
    """Result of setting a policy.

    Attributes:
        before: The object's own values before the change; `after` has the new ones.
        warnings: Risks of the change.
        effect: Tables with a different result if a run began now.
    """

    object: ObjectName
    before: Mapping[str, str | None]
    after: Mapping[str, str | None]
    warnings: tuple[str, ...]
    effect: tuple[TableEffect, ...]


@dataclass(frozen=True)
class _Scene:
    """An object with its inherited levels, in their current state."""

    name: ObjectName
    listing: CatalogListing
    state: TableMetadata | None
    levels: Levels
    remembered: Remembered

    @property
    def own(self) -> Mapping[str, str]:
        return self.levels[0][1]

    @property
    def entries(self) -> list[CatalogEntry]:
        """The tables in the object, or the table itself."""
        return [entry for entry in self.listing.entries if self.name.covers(entry.name)]

    @property
    def memory(self) -> str:
        """The ledger's key of the object."""
        return str(self.name) if self.state is None else self.state.uuid


def change_policy(
    context: ReadContext,
    name: ObjectName,
    changes: Mapping[str, str | None],
    *,
    dry_run: bool,
    reason: str = "",
) -> PolicyChange:
    """Sets and unsets policies of an object, by compare-and-swap, and computes the effect.

    Args:
        context: The ports.
        name: A table, a namespace, or the account.
        changes: New values by property; None unsets one, which is then inherited (TT-15).
        dry_run: Compute the effect and change nothing.
        reason: The reason, for the audit.

    Raises:
        RetentionOutOfRange: The profile does not allow a value (TT-8).
        TransientImmutable: The object is not new any more (ML-29).
        CatalogReadOnly: It cannot be changed from here.
        ObjectDropped: It has been dropped: undrop it first (TT-23).
        CommitConflict: Another process has changed the same policy meanwhile.
    """
    require_changeable(context, name)
    scene = _scene(context, name)
    account = context.config.account
    changes = {key: setting and normal(key, setting) for key, setting in changes.items()}
    before = {key: scene.own.get(key) for key in changes}
    after = {k: v for k, v in {**scene.own, **changes}.items() if v is not None}
    levels = [(scene.levels[0][0], after), *scene.levels[1:]]
    require_allowed(account.profile, name, changes, levels)
    if TRANSIENT in changes:
        tables = [pointer.name for pointer in scene.entries]
        require_new(name, scene.state, tables, before[TRANSIENT], changes[TRANSIENT])
    effect = _effect(context, scene, after)
    recorded = scene.remembered if TRANSIENT not in changes else Remembered(scene.remembered.values)
    warnings = effective_retention(account, levels, recorded).warnings
    if not dry_run and before != dict(changes):
        _write(context, scene, before, changes)
        context.control.policies.save({scene.memory: changes})
        settings = [
            f"{key}: {before[key] or INHERITED} -> {changes[key] or INHERITED}" for key in changes
        ]
        settings += [f"warned: {line}" for line in warnings if any(key in line for key in changes)]
        audit(context, "policy", str(name), reason, "; ".join(settings))
    return PolicyChange(name, before, dict(changes), warnings, effect)


def _scene(context: ReadContext, name: ObjectName) -> _Scene:
    catalog = context.catalogs[name.catalog]
    listing = catalog.listing()
    around = levels_around(context, name, listing)
    policies = context.control.policies.all()
    if name.kind is not ObjectKind.TABLE:
        return _Scene(name, listing, None, around, remembered(policies, around, str(name)))
    state = load_table(context, name.table_name)
    levels = [(str(name), state.properties), *around]
    return _Scene(name, listing, state, levels, remembered(policies, levels, state.uuid))


def _write(
    context: ReadContext,
    scene: _Scene,
    before: Mapping[str, str | None],
    changes: Mapping[str, str | None],
) -> None:
    updates = {key: setting for key, setting in changes.items() if setting is not None}
    removals = [key for key, setting in changes.items() if setting is None]
    if scene.state is None:
        levels = scene.name.namespace or (context.config.ledger_namespace,)
        context.editors[scene.name.catalog].set_namespace_properties(
            levels, updates, removals, expected=before
        )
        return

    def edit(document: MetadataEditor, state: TableMetadata) -> None:
        for key, setting in before.items():
            if state.properties.get(key) != setting:
                raise CommitConflict(
                    f"{key} of {state.name} has changed meanwhile",
                    object=str(state.name),
                    expected=setting or "no such property",
                    found=state.properties.get(key, "none"),
                    next="look at it, and run the command again if it is still wanted",
                )
        if TRANSIENT in changes:
            require_new(scene.name, state, [], before[TRANSIENT], changes[TRANSIENT])
        document.set_properties(updates, removals)

    commit(context, scene.state, edit)


def _effect(
    context: ReadContext, scene: _Scene, after: Mapping[str, str]
) -> tuple[TableEffect, ...]:
    """Counts what the next run would expire if it began now, before and after a change."""
    now = context.clock.now()
    tables = _tables_in(context, scene)
    changed = [_with_level(table, scene.levels[0][0], after) for table in tables]
    expiring = [
        [len(retention.keeps.expired) for retention in keep_sets(context, these, now)]
        for these in (tables, changed)
    ]
    lines = zip(tables, *expiring, strict=True)
    return tuple(TableEffect(t.state.name, b, a) for t, b, a in lines if b != a)


def _tables_in(context: ReadContext, scene: _Scene) -> list[ObservedTable]:
    if scene.state is not None:
        return [observed_table(context, scene.state, scene.listing)]
    entries = [pointer for pointer in scene.entries if not is_ledger(context, pointer.name)]
    states = load_tables(context, entries).values()
    return observed_tables(context, metadata_of(states), {scene.name.catalog: scene.listing})


def _with_level(table: ObservedTable, name: str, properties: Mapping[str, str]) -> ObservedTable:
    levels = tuple((n, properties if n == name else p) for n, p in table.levels)
    return replace(table, levels=levels)


def show_policies(context: ReadContext, name: ObjectName) -> list[PolicyLine]:
    """Lists every policy of an object: its own value, the effective value, and its source."""
    scene = _scene(context, name)
    retention = _as_it_is(context, scene)
    stay = consumer_keep(context.config.account, scene.levels)
    least, profile = retention.min_days, context.config.account.profile
    enabled = next((n for n, p in scene.levels if p.get(ENABLED, "true") != "true"), PROFILE)
    lines = [
        (RETENTION, retention.days, retention.source, _applied(context, scene, retention)),
        (FAILSAFE, retention.failsafe // timedelta(hours=24), retention.failsafe_source, None),
        (MIN_RETENTION, least, retention.min_source, None),
        (WRITER_KEEP, format_duration(retention.writer_keep), retention.writer_source, None),
        (TRANSIENT, retention.transient, retention.transient_source, None),
        (ENABLED, is_enabled(scene.levels, default=profile.auto_maintenance), enabled, None),
        *_about_cold(context.config, scene.levels),
        (CONSUMER_KEEP, format_duration(stay.span), stay.source, None),
    ]
    return [
        PolicyLine(key, scene.own.get(key), effective, source, applied)
        for key, effective, source, applied in lines
    ]


def _as_it_is(context: ReadContext, scene: _Scene) -> Retention:
    """Effective retention of an object; for a table, with its policy store's current values."""
    account = context.config.account
    retention = effective_retention(account, scene.levels, scene.remembered)
    if scene.state is None:
        return retention
    table = observed_table(context, scene.state, scene.listing, anew=True)
    return with_stated(account, scene.levels, retention, table.stated)


def _about_cold(
    config: Config, levels: Levels
) -> list[tuple[str, int | str | bool, str, int | str | None]]:
    """Policies of the archive, with their sources."""
    account = config.account
    policy = cold_policy(account, levels)
    written: dict[str, tuple[int | str | bool, bool]] = {
        COLD: (str(policy.cadence), account.cold != Cadence.NONE),
        COLD_RETENTION: (policy.keep_for.days, account.cold_retention_days != _COLD_DAYS),
        DEEP: (policy.deep, account.deep),
    }
    lines: list[tuple[str, int | str | bool, str, int | str | None]] = []
    for key, (effective, in_file) in written.items():
        source = next((name for name, properties in levels if key in properties), "")
        source = source or (ACCOUNT if in_file else PROFILE)
        lines.append((key, effective, source, None))
    return lines


def _applied(context: ReadContext, scene: _Scene, retention: Retention) -> int | str | None:
    """The longer retention of the last run, after a decrease."""
    raw = context.control.policies.all().get(scene.memory, {}).get(APPLIED)
    if raw is None or raw == str(retention.days) or retention.days == INFINITE:
        return None
    if raw == INFINITE:
        return INFINITE
    return int(raw) if isinstance(retention.days, int) and int(raw) > retention.days else None


def remember_policies(context: ReadContext, tables: Sequence[ObservedTable]) -> None:
    """Records the policies that apply to each table now, for later changes outside the rules.

    It also records whether a table is transient at its first observation: that cannot change
    (ML-29).
    """
    policies = context.control.policies.all()
    new: dict[str, dict[str, str | None]] = {}

    def note(object: str, key: str, setting: str) -> None:
        if policies.get(object, {}).get(key) != setting:
            new.setdefault(object, {})[key] = setting

    for table in tables:
        retention = retention_of(context.config.account, table, policies)
        if not isinstance(table.stated, MeltlineError):
            note(table.state.uuid, APPLIED, str(retention.days))
        if TRANSIENT not in policies.get(table.state.uuid, {}):
            note(table.state.uuid, TRANSIENT, str(retention.transient).lower())
        for name, properties in table.levels:
            object = table.state.uuid if name == table.levels[0][0] else name
            for key in (RETENTION, FAILSAFE, MIN_RETENTION, WRITER_KEEP):
                setting = properties.get(key)
                if setting is not None and is_in_order(
                    context.config.account.profile, key, setting, transient=retention.transient
                ):
                    note(object, key, setting)
    if new:
        context.control.policies.save(new)
