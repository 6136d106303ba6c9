"""The ordered list of a run's steps, which `meltline run`, the Spark apps and the DAGs share.

It imports only the types of runs, so that a DAG is parsed without the code that does the work.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from meltline.domain.deletion.plan import PlanKind

if TYPE_CHECKING:
    from meltline.app.run.lifecycle import Run


class Role(StrEnum):
    """Effect of a step on the plans of a run."""

    NONE = "none"
    PLAN = "makes them"
    GATE = "judges them"
    APPLY = "carries them out: it destroys, and stands behind its gate"


class _ChunkRun(Protocol):
    """A run over chunks, with a method for each of its steps: `app.chunks.run.ChunkRun`."""

    def replicate_to_cold(self) -> object: ...
    def refresh_rollups(self) -> object: ...
    def evaluate_chunks(self) -> object: ...
    def plan_drops(self) -> object: ...
    def gate_drops(self) -> object: ...
    def drop_chunks(self) -> object: ...
    def report_chunks(self) -> object: ...


R_contra = TypeVar("R_contra", contravariant=True)
"""The type of run that a step belongs to."""


@dataclass(frozen=True)
class Step(Generic[R_contra]):
    """A step of a run; each Spark app does one.

    Attributes:
        name: The name of Airflow's task, and of the Spark app unless `app` is set.
        run: Runs it.
        doc: Its description for users.
        role: Its effect on plans.
        kind: The kind of its plans; None if it has none.
        app: The Spark app's name, if it differs.
        previews: Whether a dry run includes it.
        dates: Whether it records times, so that a wrong clock or ledger is refused first.
    """

    name: str
    run: Callable[[R_contra], object]
    doc: str
    role: Role = Role.NONE
    kind: PlanKind | None = None
    app: str = ""
    previews: bool = False
    dates: bool = False


STEPS: "tuple[Step[Run], ...]" = (
    Step(
        "observe",
        lambda run: run.observe(),
        "Lists every catalog and reads what is new.",
        previews=True,
        dates=True,
    ),
    Step(
        "hand_off_to_cold",
        lambda run: run.hand_off_to_cold(),
        "Copies to cold what the policies want there, before it may expire.",
        previews=True,
        dates=True,
    ),
    Step(
        "plan_expiration",
        lambda run: run.plan_expiration(),
        "Names the snapshots and refs to expire, and the files that depart.",
        Role.PLAN,
        PlanKind.EXPIRE,
        previews=True,
        dates=True,
    ),
    Step(
        "gate_expiration",
        lambda run: run.gate_expiration(),
        "Judges plans by evidence of its own. Not retried; a refused table stops itself only.",
        Role.GATE,
        PlanKind.EXPIRE,
        app="gate",
    ),
    Step(
        "expire",
        lambda run: run.expire(),
        "One metadata-only commit per planned table.",
        Role.APPLY,
        PlanKind.EXPIRE,
    ),
    Step(
        "plan_purge",
        lambda run: run.plan_purge(),
        "Names departed files past their failsafe that nothing refers to.",
        Role.PLAN,
        PlanKind.PURGE,
        previews=True,
    ),
    Step(
        "gate_purge",
        lambda run: run.gate_purge(),
        "Judges plans by evidence of its own. Not retried; a refused table stops itself only.",
        Role.GATE,
        PlanKind.PURGE,
        app="gate",
    ),
    Step(
        "purge",
        lambda run: run.purge(),
        "Deletes, part by part, each proved unreachable once more.",
        Role.APPLY,
        PlanKind.PURGE,
    ),
    Step("report", lambda run: run.report(), "Storage by stage, per table and day."),
)
"""The steps of a run, in their safe order."""

SWEEP: "Step[Run]" = Step(
    "sweep",
    lambda run: run.sweep(),
    "Lists the store, reads what is new, and records what departs.",
    previews=True,
)
"""A run of its own, which starts failsafe for files that no commit has ever referenced."""


REPLICATE: Step[_ChunkRun] = Step(
    "replicate_to_cold",
    lambda run: run.replicate_to_cold(),
    "Brings synced tables in cold up to hot's main line: not what our own drops took out.",
)

REFRESH: Step[_ChunkRun] = Step(
    "refresh_rollups",
    lambda run: run.refresh_rollups(),
    "Aggregates anew the buckets whose rows have changed, each rollup after those it reads.",
)

CHUNK_STEPS: tuple[Step[_ChunkRun], ...] = (
    # These two are also a run of their own, as often as a site wants. The other steps then evaluate
    # the current state of cold and of the rollups.
    REPLICATE,
    REFRESH,
    Step(
        "evaluate_chunks",
        lambda run: run.evaluate_chunks(),
        "Stamps each chunk with its last write, and flags those that are proved to be in cold.",
        previews=True,
    ),
    Step(
        "plan_drops",
        lambda run: run.plan_drops(),
        "Names the chunks that are old enough to leave hot, and their files.",
        Role.PLAN,
        PlanKind.DROP_CHUNKS,
        previews=True,
    ),
    Step(
        "gate_drops",
        lambda run: run.gate_drops(),
        "Proves by evidence of its own that cold has every row. Not retried.",
        Role.GATE,
        PlanKind.DROP_CHUNKS,
        app="gate",
    ),
    Step(
        "drop_chunks",
        lambda run: run.drop_chunks(),
        "One metadata-only commit per table; what was written meanwhile stays.",
        Role.APPLY,
        PlanKind.DROP_CHUNKS,
    ),
    Step(
        "report_chunks",
        lambda run: run.report_chunks(),
        "What waits, and why; when dropped bytes are gone.",
    ),
)
"""The steps of a run over chunks, in their order."""

EVERY_STEP: tuple[Step[Any], ...] = (*STEPS, SWEEP, *CHUNK_STEPS)
"""All steps that a Spark app can run."""


def step_of(app: str, kind: PlanKind | None = None) -> Step[Any]:
    """Returns the step that a Spark app runs; `kind` distinguishes steps that share an app."""
    return next(
        step for step in EVERY_STEP if app == (step.app or step.name) and kind in (None, step.kind)
    )
