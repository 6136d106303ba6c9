"""The steps of a run, once: `meltline run`, the Spark apps and the DAGs go by this list.

Nothing but the list is here, so that a DAG is read without what does the work; `Run` does it.
"""

from dataclasses import dataclass
from enum import StrEnum

from meltline.domain.deletion.plan import PlanKind


class Role(StrEnum):
    """What a step is to the plans of a run."""

    NONE = "none"
    PLAN = "makes them"
    GATE = "judges them"
    APPLY = "carries them out: it destroys, and stands behind its gate"


@dataclass(frozen=True)
class Step:
    """A step of a run, which each Spark app does one of.

    Attributes:
        name: Of the method of `Run` that does it, and of Airflow's task.
        doc: What it does, for a person.
        role: What it does to plans.
        kind: Of which kind these are; None where it is about none.
        app: The Spark app's name, where that is another one.
        previews: Whether a dry run has it, too.
        dates: Whether it dates what it sees, so that a wrong clock or ledger is refused first.
    """

    name: str
    doc: str
    role: Role = Role.NONE
    kind: PlanKind | None = None
    app: str = ""
    previews: bool = False
    dates: bool = False


STEPS = (
    Step("observe", "Lists every catalog and reads what is new.", previews=True, dates=True),
    Step(
        "hand_off_to_cold",
        "Copies to cold what the policies want there, before it may expire.",
        previews=True,
        dates=True,
    ),
    Step(
        "plan_expiration",
        "Names the snapshots and refs to expire, and the files that depart.",
        Role.PLAN,
        PlanKind.EXPIRE,
        previews=True,
        dates=True,
    ),
    Step(
        "gate_expiration",
        "Judges plans by evidence of its own. Not retried; a refused table stops itself only.",
        Role.GATE,
        PlanKind.EXPIRE,
        app="gate",
    ),
    Step("expire", "One metadata-only commit per planned table.", Role.APPLY, PlanKind.EXPIRE),
    Step(
        "plan_purge",
        "Names departed files past their failsafe that nothing refers to.",
        Role.PLAN,
        PlanKind.PURGE,
        previews=True,
    ),
    Step(
        "gate_purge",
        "Judges plans by evidence of its own. Not retried; a refused table stops itself only.",
        Role.GATE,
        PlanKind.PURGE,
        app="gate",
    ),
    Step(
        "purge",
        "Deletes, part by part, each proved unreachable once more.",
        Role.APPLY,
        PlanKind.PURGE,
    ),
    Step("report", "Storage by stage, per table and day."),
)
"""A run, in the order that is safe."""

SWEEP = Step(
    "sweep", "Lists the store, reads what is new, and records what departs.", previews=True
)
"""A run of its own: what no commit has named begins to wait in failsafe, too."""


REPLICATE = Step(
    "replicate_to_cold",
    "Brings synced tables in cold up to hot's main line: not what our own drops took out.",
)

REFRESH = Step(
    "refresh_rollups",
    "Aggregates anew the buckets whose rows have changed, each rollup after those it reads.",
)

REPLICATE_STEPS = (REPLICATE, REFRESH)
"""A run of its own too, as often as a site wants."""

CHUNK_STEPS = (
    # What is judged is then what cold and rollups have now, however often the site replicates.
    *REPLICATE_STEPS,
    Step(
        "evaluate_chunks",
        "Stamps each chunk with its last write, and flags those that are proved to be in cold.",
        previews=True,
    ),
    Step(
        "plan_drops",
        "Names the chunks that are old enough to leave hot, and their files.",
        Role.PLAN,
        PlanKind.DROP_CHUNKS,
        previews=True,
    ),
    Step(
        "gate_drops",
        "Proves by evidence of its own that cold has every row. Not retried.",
        Role.GATE,
        PlanKind.DROP_CHUNKS,
        app="gate",
    ),
    Step(
        "drop_chunks",
        "One metadata-only commit per table; what was written meanwhile stays.",
        Role.APPLY,
        PlanKind.DROP_CHUNKS,
    ),
    Step("report_chunks", "What waits, and why; when dropped bytes are gone."),
)
"""A run over chunks of time, in its order."""

EVERY_STEP = (*STEPS, SWEEP, *CHUNK_STEPS)
"""All that a Spark app may do."""


def step_of(app: str, kind: PlanKind | None = None) -> Step:
    """The step that a Spark app does; `kind` tells apart those that have one app."""
    return next(
        step for step in EVERY_STEP if app == (step.app or step.name) and kind in (None, step.kind)
    )
