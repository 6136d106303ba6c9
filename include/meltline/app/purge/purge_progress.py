"""State of one plan during a purge: its files by result, and the error that stopped it.

The modules of this package share it; `apply_purges` builds its result from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import PlannedFile
from meltline.ports import DeleteOutcome, Lock


@dataclass(eq=False)
class PlanInHand:
    """A plan during its purge.

    Attributes:
        group: The key of its table's group.
        lock: The group's lock, set once the plan was checked under it.
        error: The error that stopped it.
        is_resumed: Whether an earlier run began it, and may have deleted some files unrecorded.
        gone: Files of `deleted` that no longer existed: another tool has deleted them.
        replaced: Files under whose path another object lies than the one that departed, and why it
            counts as another. It was left alone.
    """

    plan: Plan
    files: Sequence[PlannedFile]
    group: str
    lock: Lock | None = None
    error: MeltlineError | None = None
    is_resumed: bool = False
    deleted: list[PlannedFile] = field(default_factory=list)
    gone: list[PlannedFile] = field(default_factory=list)
    cancelled: list[PlannedFile] = field(default_factory=list)
    failed: list[DeleteOutcome] = field(default_factory=list)
    replaced: dict[PlannedFile, str] = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        """Whether it was not checked yet."""
        return self.lock is None and self.error is None

    @property
    def is_open(self) -> bool:
        """Whether it was begun under its lock, and is neither stopped nor finished."""
        is_begun = self.lock is not None and self.plan.state is PlanState.APPLYING
        return is_begun and self.error is None

    def stop(self, error: MeltlineError | None) -> None:
        """Stops it, if there is an error and nothing has stopped it before."""
        self.error = self.error or error
