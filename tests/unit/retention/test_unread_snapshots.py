"""A table that was read before gets a snapshot that nobody can read: it may name any file."""

from collections.abc import Callable

import pytest

from meltline.app.catalog.management import detach
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.domain.deletion.plan import PlanState
from tests.lake.copies import fresh_lake
from tests.lake.lake import DAY, Lake, Table

LIST: Callable[[Table], str] = lambda table: table.manifest_list(table.head)  # noqa: E731
MANIFEST: Callable[[Table], str] = lambda table: table.manifests(table.head)[-1]  # noqa: E731
METADATA: Callable[[Table], str] = lambda table: table.metadata_location  # noqa: E731
BROKEN = pytest.mark.parametrize("broken", [LIST, MANIFEST, METADATA], ids=["l", "m", "json"])


class Borrowed:
    """A file that its table lets go of, and that the new snapshot of another one names."""

    def __init__(self) -> None:
        self.lake: Lake = fresh_lake()
        self.owner, self.other = self.lake.table("owner"), self.lake.table("other")
        self.owner.append("shared", "unshared")
        self.other.append("own")
        self.shared, self.unshared = (entry.path for entry in self.owner.live())
        self.lake.run()

    def is_named(self, broken: Callable[[Table], str]) -> None:
        """`add_files` names it in a snapshot that cannot be read."""
        self.other.append(self.shared)
        self.path = broken(self.other)
        self.content = self.lake.spoil(self.path)

    def is_let_go(self, days: int = 20) -> None:
        self.owner.overwrite("new")
        for _ in range(days):
            self.lake.clock.moment += DAY
            self.lake.run()

    def is_there(self, path: str) -> bool:
        return self.lake.store.size(path) is not None


@BROKEN
def test_a_file_that_only_an_unread_snapshot_names_is_kept_until_that_can_be_read(
    broken: Callable[[Table], str],
) -> None:
    case = Borrowed()
    case.is_named(broken)
    case.is_let_go()
    assert case.is_there(case.shared) and case.is_there(case.unshared)
    case.lake.mend(case.path, case.content)
    case.lake.clock.moment += DAY
    case.lake.run()
    assert case.is_there(case.shared) and not case.is_there(case.unshared)


def test_a_person_who_knows_the_table_lets_purging_go_on_until_its_next_commit() -> None:
    case = Borrowed()
    case.other.append("more of its own")
    case.lake.spoil(MANIFEST(case.other))
    case.is_let_go()
    assert case.is_there(case.unshared)
    summary = case.lake.run()
    assert summary.exit_code == 4 and "lake.air.other" in summary.notes[0]
    detach(case.lake.services(), [case.other.name], "nothing of others is in it")
    case.lake.run()
    assert not case.is_there(case.unshared)


@BROKEN
def test_a_gate_refuses_a_purge_beside_a_snapshot_that_it_cannot_read_and_nobody_has_read(
    broken: Callable[[Table], str],
) -> None:
    case = Borrowed()
    case.is_let_go(days=9)
    case.lake.clock.moment += 8 * DAY
    services = case.lake.services()
    plans = [one.plan for one in Run(services, case.lake.request()).plan_purge()]
    case.is_named(broken)
    ((plan, result),) = run_gate(case.lake.services(), plans)
    assert plan.state is PlanState.REFUSED
    assert [failed.expectation for failed in result.failed] == ["unreadable is 0"]


def test_a_snapshot_that_was_read_and_is_damaged_since_holds_back_its_group_alone() -> None:
    case = Borrowed()
    case.lake.spoil(MANIFEST(case.other), same_length=True)
    case.is_let_go()
    assert not case.is_there(case.unshared)
