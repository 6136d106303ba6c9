"""Registry of commands, and the parser for one command line.

`main` calls it. Commands are named, not imported, so only the requested one is loaded. For a list,
the first docstring lines of the others are read from their modules' source.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from meltline.version import VERSION

SECTIONS: Mapping[str, Sequence[str]] = {
    "Start here": ("init", "doctor", "run", "status", "storage", "explain"),
    "Look back": ("runs", "plans", "show", "audit"),
    "A run, step by step": ("observe", "plan", "gate", "apply", "sweep"),
    "Set what is kept": ("policy", "tag", "untag", "tags", "hold", "consumer", "lease"),
    "Undo": (
        "rollback",
        "undrop",
        "recover",
        "restore",
        "history",
        "branch",
        "diff",
        "publish",
        "resync",
    ),
    "Read and share": ("query", "sql", "clone", "share", "drop", "rename"),
    "The archive": ("cold",),
    "Chunks by age": ("chunks", "rollups"),
    "Set up": ("jars", "airflow"),
    "Take charge": (
        "arm",
        "disarm",
        "approval",
        "stop",
        "go",
        "attach",
        "trust",
        "detach",
        "abandon",
        "clock",
    ),
}
"""Groups of commands for `--help`, in the order in which a new user needs them."""

MORE = "More"
"""Section of commands that no other section has."""

EXAMPLES: Mapping[str, Sequence[str]] = {
    "": (
        "meltline init                          once: prepare the ledgers",
        "meltline doctor                        what would block a run",
        "meltline run --dry-run                 what a run would expire and purge",
        "meltline storage --by namespace        bytes by stage",
        "meltline explain lake.air.flights      why each snapshot is kept, and until when",
    ),
    "init": (
        "meltline init --example",
        "meltline init",
        "meltline init --sandbox",
    ),
    "jars fetch": ("meltline jars fetch", "meltline jars fetch --feature s3"),
    "airflow init": ("meltline airflow init ~/airflow/dags",),
    "run": (
        "meltline run --dry-run",
        "meltline run --tables 'lake.air.*'",
        "meltline run --dry-run --as-of 2026-12-01",
    ),
    "storage": (
        "meltline storage --tables 'lake.air.*'",
        "meltline storage --by namespace --as-of 2026-11-21T00:00:00Z",
        "meltline storage --listing --json",
    ),
    "explain": (
        "meltline explain lake.air.flights",
        "meltline explain lake.air.flights@8676659705290312755",
        "meltline explain s3://bucket/warehouse/air/flights/data/00000-0.parquet",
    ),
    "arm": ('meltline arm lake --reason "looked at the first week"',),
    "runs": ("meltline runs --day 2026-11-21", "meltline runs --state failed,refused"),
    "plans": ("meltline plans --tables 'lake.air.*' --state passed --kind purge",),
    "show plan": ("meltline show plan last --items",),
    "show run": ("meltline show run last",),
    "audit": ("meltline audit --of lake.air.flights --since 2026-11-01",),
    "plan expire": ("meltline plan expire --tables 'lake.air.*' --dry-run",),
    "gate": ("meltline gate last",),
    "apply": ("meltline apply last", "meltline apply p1f2 --approve 'seen, and right'"),
    "plan drops": ("meltline plan drops --tables 'lake.air.*' --dry-run",),
    "chunks sync": (
        "meltline chunks sync lake.air.readings",
        "meltline chunks sync lake.air.readings --column day --unit day --pattern %Y%m%d",
    ),
    "chunks replicate": (
        "meltline chunks replicate",
        "meltline chunks replicate --tables lake.air.readings --deletes mirror",
    ),
    "chunks tier-and-drop": (
        "meltline chunks tier-and-drop lake.air.readings 7d 90d --max-lateness 2d",
    ),
    "chunks tier": ("meltline chunks tier lake.air.readings@2026-01-05",),
    "chunks drop": (
        "meltline chunks drop lake.air.readings --dry-run",
        "meltline chunks drop lake.air.readings --force --chunks 2026-01-05 --reason 'case 17'",
    ),
    "chunks run": ("meltline chunks run --dry-run --as-of 2026-12-01",),
    "sweep": ("meltline sweep --dry-run", "meltline sweep --minimum-age 7d"),
    "policy set": (
        "meltline policy set lake.air --retention-days 30 --dry-run",
        "meltline policy set lake.air.flights --failsafe-days 14 --reason 'case 17'",
    ),
    "tag": (
        "meltline tag lake.air.flights q1 --retention-days 90",
        "meltline tag lake.air.flights y2026 --retention-days forever --at 2026-12-31",
    ),
    "hold add": ("meltline hold add lake.air --reason 'case 17' --until 2027-06-30",),
    "rollback": ("meltline rollback lake.air.flights --at 2026-11-20T06:00:00Z --dry-run",),
    "undrop": ("meltline undrop lake.air.flights",),
    "restore": ("meltline restore lake.air.back --from-cold lake.air.flights --at 2026-03-31",),
    "clone": ("meltline clone lake.air.flights lake.air.flights_dev",),
    "query": ("meltline query lake.air.flights --at --offset -3600",),
    "stop": ("meltline stop --reason 'looking into an incident'",),
    "go": ("meltline go --reason 'it was a false alarm'",),
}
"""Example command lines by command; those under "" are for the first steps."""


def section_of(command: str) -> str:
    """Returns the section of a command."""
    return next((head for head, commands in SECTIONS.items() if command in commands), MORE)


def examples(command: str) -> str | None:
    """Formats the end of a command's help: its examples, one a line."""
    lines = EXAMPLES.get(command, ())
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else None


COMMANDS: Mapping[str, str] = {
    "arm": "control.arm",
    "disarm": "control.disarm",
    "stop": "control.stop",
    "go": "control.go",
    "attach": "control.attach",
    "trust": "control.trust",
    "detach": "control.detach",
    "abandon": "control.abandon",
    "init": "install.ledgers.init",
    "observe": "run.lifecycle.observe",
    "gate": "run.lifecycle.gate",
    "apply": "run.lifecycle.apply_plan",
    "run": "run.lifecycle.run",
    "runs": "plans.runs",
    "plans": "plans.plans",
    "storage": "storage.storage",
    "explain": "explain.explain",
    "status": "run.status.status",
    "doctor": "doctor.doctor",
    "tag": "tables.refs.tag",
    "untag": "tables.refs.untag",
    "tags": "tables.refs.tags",
    "rollback": "tables.refs.rollback",
    "branch": "tables.refs.branch",
    "diff": "tables.refs.diff",
    "publish": "tables.refs.publish",
    "resync": "tables.refs.resync",
    "audit": "retention.hold.audit",
    "drop": "tables.drop.drop",
    "undrop": "tables.drop.undrop",
    "rename": "tables.drop.rename",
    "history": "tables.drop.history",
    "recover": "tables.drop.recover",
    "clone": "tables.clone.clone",
    "sweep": "run.sweep.sweep",
    "query": "sql.query.query",
    "sql": "sql.statement.sql",
    "restore": "archive.restore.restore",
}
"""Function of each command in this package, in the order of `meltline --help`."""

GROUPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "plan": (
        "Plan expirations, purges and drops: nothing is changed.",
        {
            "expire": "run.lifecycle.plan_expire",
            "purge": "run.lifecycle.plan_purge_command",
            "handoff": "archive.cold.plan_handoff",
            "drops": "chunks.runs.plan_drops",
        },
    ),
    "show": (
        "Show what is stored.",
        {"plan": "plans.show_plan", "run": "plans.show_run"},
    ),
    "approval": (
        "Approve or reject purges above the limit.",
        {
            "list": "approval.approval_list",
            "show": "approval.approval_show",
            "give": "approval.approval_give",
            "reject": "approval.approval_reject",
        },
    ),
    "policy": (
        "Set and show retention policies.",
        {
            "set": "retention.policy.policy_set",
            "unset": "retention.policy.policy_unset",
            "show": "retention.policy.policy_show",
        },
    ),
    "hold": (
        "Hold objects, for audits and courts.",
        {
            "add": "retention.hold.hold_add",
            "remove": "retention.hold.hold_remove",
            "list": "retention.hold.hold_list",
        },
    ),
    "share": (
        "Share a pinned state with other readers.",
        {
            "create": "tables.share.share_create",
            "update": "tables.share.share_update",
            "drop": "tables.share.share_drop",
            "list": "tables.share.share_list",
        },
    ),
    "lease": (
        "Keep a snapshot while it is read.",
        {
            "acquire": "retention.lease.lease_acquire",
            "renew": "retention.lease.lease_renew",
            "release": "retention.lease.lease_release",
            "list": "retention.lease.lease_list",
        },
    ),
    "cold": (
        "Inspect and manage the archive.",
        {
            "status": "archive.cold.status",
            "adopt": "archive.cold.adopt",
            "list": "archive.cold.list_copies",
            "verify": "archive.cold.verify",
            "prune": "archive.cold_prune.prune",
            "deepen": "archive.cold_prune.deepen",
            "recall": "archive.cold_prune.bring_back",
        },
    ),
    "chunks": (
        "Copy, flag and drop a table's chunks by age.",
        {
            "sync": "chunks.sync.sync",
            "stop-sync": "chunks.sync.stop_sync",
            "settle": "chunks.sync.settle",
            "accept": "chunks.sync.accept",
            "replicate": "chunks.sync.replicate",
            "tier-after": "chunks.policies.tier_after",
            "drop-after": "chunks.policies.drop_after",
            "tier-and-drop": "chunks.policies.tier_and_drop",
            "forget-policy": "chunks.policies.forget_policy",
            "policies": "chunks.policies.policies",
            "tier": "chunks.flags.tier",
            "untier": "chunks.flags.untier",
            "drop": "chunks.runs.drop",
            "status": "chunks.status.status",
            "list": "chunks.status.list_chunks",
            "run": "chunks.runs.run",
        },
    ),
    "rollups": (
        "Refresh tables of aggregates that outlive their source.",
        {
            "list": "chunks.rollups.list_rollups",
            "refresh": "chunks.rollups.refresh",
            "drop": "chunks.rollups.drop",
        },
    ),
    "consumer": (
        "Keep unread snapshots for incremental readers.",
        {
            "set": "retention.consumer.consumer_set",
            "remove": "retention.consumer.consumer_remove",
            "list": "retention.consumer.consumer_list",
        },
    ),
    "sweep": (
        "Say which owners that no catalog shows are known and gone.",
        {"allow": "run.sweep.sweep_allow", "disallow": "run.sweep.sweep_disallow"},
    ),
    "jars": (
        "List and fetch the jars that Spark needs.",
        {"fetch": "install.jars.fetch", "list": "install.jars.list_jars"},
    ),
    "airflow": (
        "Install Meltline's DAGs in Airflow.",
        {"init": "install.dag_files.airflow_init"},
    ),
    "clock": (
        "Repair records written with a wrong clock.",
        {"disown": "clock.clock_disown"},
    ),
}
"""Groups of subcommands: their purpose, and the function of each subcommand."""


def parser(words: Sequence[str]) -> typer.Typer:
    """Builds the parser for a command line: it lists every command, and loads the one in it."""
    first, second = [*(word for word in words if not word.startswith("-")), "", ""][:2]
    app = typer.Typer(
        name="meltline",
        cls=_InSections,
        help="Manages retention and safe deletion for Apache Iceberg tables.",
        epilog=examples(""),
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"max_content_width": 110},
        rich_markup_mode=None,
        callback=_options,
    )
    # `sweep` is a command, and before `allow` also a group of the same name.
    group_meant = first if second in GROUPS.get(first, ("", {}))[1] else ""
    _add(app, {name: at for name, at in COMMANDS.items() if name != group_meant}, first)
    for name, (purpose, commands) in GROUPS.items():
        if name in COMMANDS and name != group_meant:
            continue
        group = typer.Typer(help=purpose, no_args_is_help=True)
        if name == first:
            _add(group, commands, second, name)
        app.add_typer(group, name=name)
    return app


class _InSections(TyperGroup):
    """Lists commands by section."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = self.list_commands(ctx)
        room = formatter.width - 6 - max(map(len, names))
        for head in (*SECTIONS, MORE):
            of_head = [name for name in SECTIONS.get(head, names) if name in names]
            rows = [
                (name, self.commands[name].get_short_help_str(room))
                for name in of_head
                if section_of(name) == head
            ]
            if rows:
                with formatter.section(head):
                    formatter.write_dl(rows)


def words_to_complete(environ: Mapping[str, str]) -> list[str]:
    """Returns the arguments to complete for a shell; none outside shell completion."""
    if "_MELTLINE_COMPLETE" not in environ:
        return []
    line = environ.get("COMP_WORDS") or environ.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def _add(app: typer.Typer, commands: Mapping[str, str], chosen: str, group: str = "") -> None:
    for name, place in commands.items():
        if name == chosen:
            app.command(name, epilog=examples(f"{group} {name}".strip()))(_function(place))
        else:  # another command is chosen, or none: then the list of all is needed
            app.command(name, help="" if chosen else _purpose(place))(_not_chosen)


def _function(place: str) -> Callable[..., int]:
    module, _, name = place.rpartition(".")
    function: Callable[..., int] = getattr(import_module(f"meltline.cli.{module}"), name)
    return function


def _not_chosen() -> int:
    raise AssertionError("a command that the words do not name was called")


def _purpose(place: str) -> str:
    module, _, name = place.rpartition(".")
    return _docstrings(module)[name]


@cache
def _docstrings(module: str) -> Mapping[str, str]:
    """Reads the docstrings of a module's functions without importing it."""
    text = files("meltline.cli").joinpath(f"{module.replace('.', '/')}.py").read_text("utf-8")
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


def _show_version(asked: bool) -> None:
    if asked:
        print(f"meltline {VERSION}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="show it, exit")
    ] = False,
) -> None:
    """Options before a command."""
