"""What `--help` says beside the commands' own words: where to start, in which groups, examples."""

from collections.abc import Mapping, Sequence

SECTIONS: Mapping[str, Sequence[str]] = {
    "Start here": ("init", "doctor", "run", "status", "storage", "explain"),
    "Look back": ("runs", "plans", "show", "audit"),
    "A run, step by step": ("observe", "plan", "gate", "apply", "sweep"),
    "Say what is kept": ("policy", "tag", "untag", "tags", "hold", "consumer", "lease"),
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
"""Commands of one kind, in the order in which a newcomer needs them."""

MORE = "More"
"""The section of what stands in none."""

EXAMPLES: Mapping[str, Sequence[str]] = {
    "": (
        "meltline init                          once: prepare the ledgers",
        "meltline doctor                        what would hold a run back",
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
"""Command lines by the command that they show; those of none show the way in."""


def section_of(command: str) -> str:
    """Under which head a command stands."""
    return next((head for head, commands in SECTIONS.items() if command in commands), MORE)


def examples(command: str) -> str | None:
    """The end of a command's help: its examples, each on a line of its own."""
    lines = EXAMPLES.get(command, ())
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else None
