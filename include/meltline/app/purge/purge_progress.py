"""A plan while it is purged: what was done of it, and what has stopped it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import PlannedFile
from meltline.ports import DeleteOutcome, Lock


@dataclass(eq=False)
class PlanInHand:
    """A plan while it is purged.

    Attributes:
        group: The key of its table's group.
        lock: The group's lock, from when the plan was looked at under it.
        error: What stopped it.
        is_resumed: Whether an earlier run began it, and may have deleted some files unrecorded.
        gone: Files of `deleted` that were not there any more: another tool has deleted them.
        replaced: Why what lies under a file's path is not the one that departed: it was left alone.
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
        """Whether it was not looked at yet."""
        return self.lock is None and self.error is None

    @property
    def is_open(self) -> bool:
        """Whether it was begun under its lock, and nothing has stopped it or finished it."""
        is_begun = self.lock is not None and self.plan.state is PlanState.APPLYING
        return is_begun and self.error is None

    def stop(self, error: MeltlineError | None) -> None:
        """Stops it, where there is an error and nothing has stopped it before."""
        self.error = self.error or error
