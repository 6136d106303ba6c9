"""What comes to name a file between its last proof and its delete: found at once, and named."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.purge.purge import apply_purges
from meltline.app.run.gated_plans import judge
from meltline.app.run.lifecycle import Run, run_chain
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import CatalogUnlistable, DeletedWhileNamed
from meltline.ports import DeleteOutcome
from tests.lake.lake import ROOMY, Lake, Table
from tests.lives.kills import Killed

ROOMY_SLOW = replace(ROOMY, delete_keys_per_second=1)  # sixty files by one proof
FILES = 14  # of a commit: three of them and their metadata are fewer than that, twice are more
Act = Callable[[Lake, Table], object]


def waiting_lake(*names: str) -> tuple[Lake, list[Table]]:
    """Tables whose first three files wait in failsafe, and are due."""
    lake = Lake()
    tables = [lake.on(0).table(name) for name in names]
    for day in range(4):
        lake.on(day)
        for table in tables:
            table.overwrite(f"f{day}", *(f"f{day}-{number}" for number in range(FILES - 1)))
    lake.on(12).run()
    return lake.on(20), tables


class Meanwhile:
    """Deletes; somebody acts just before the first deletes of a table, after their proof."""

    def __init__(self, lake: Lake, table: Table, act: Act, *, after: bool = False) -> None:
        self._lake, self._table, self._act, self._after = lake, table, act, after
        self.done = False

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        mine = not self.done and any(self._table.location in file.path for file in files)
        self.done = self.done or mine
        if mine and not self._after:
            self._act(self._lake, self._table)
        outcomes = self._lake.deleter.delete_checked(files)
        if mine and self._after:
            self._act(self._lake, self._table)
        return outcomes


def old_metadata(table: Table) -> str:
    return str(table.document["metadata-log"][-1]["metadata-file"])


def register_old(lake: Lake, table: Table) -> None:
    lake.register("lake.air.again", old_metadata(table))


def add_files(lake: Lake, table: Table) -> None:
    """Names a file; whether it is there, `add_files` has looked long before."""
    was_there = lake.store.size(table.data("f0")) is not None
    table.append("f0")
    if not was_there:
        lake.store.delete([table.data("f0")])


def run_on(lake: Lake, day: float) -> None:
    """Not by `Lake.run`: that would not stand a file that is lost."""
    run_chain(lake.on(day).services(), lake.request())


def gated(lake: Lake) -> list[Plan]:
    services = lake.services()
    planned = [one.plan for one in Run(services, lake.request()).plan_purge()]
    return judge(services, planned)


@pytest.mark.parametrize(
    ("act", "named_by"),
    [(add_files, "lake.air.t"), (register_old, "lake.air.again")],
    ids=["add_files", "register_table"],
)
@pytest.mark.parametrize("after", [False, True], ids=["before the delete", "after it"])
def test_what_is_named_while_it_is_deleted_is_an_incident_that_names_it(
    act: Act, named_by: str, after: bool
) -> None:
    lake, (table,) = waiting_lake("t")
    path, plans = table.data("f0"), gated(lake)
    deleter = Meanwhile(lake, table, act, after=after)
    request = replace(lake.request(), run_id=plans[0].run_id)
    run = Run(lake.services(deleter=deleter), request)
    (purged,) = run.purge()
    summary = run.summary
    assert isinstance(purged.error, DeletedWhileNamed)
    assert named_by in purged.error.found and purged.error.next
    assert summary.exit_code == 1 and named_by in summary.tables["lake.air.t"].failed
    incidents = {one.object: one for one in lake.control.incidents.all()}
    assert act is register_old or path in incidents
    assert all(named_by in one.message and one.next for one in incidents.values())
    assert all(one.kind == "DeletedWhileNamed" for one in incidents.values())
    (entry,) = [e for e in lake.control.audit.entries() if e.action == "incident"]
    assert set(incidents) == {line.partition(": ")[0] for line in entry.detail.splitlines()}
    findings = [f for f in examine(lake.services()) if f.code == "incident"]
    assert {f.object for f in findings} == set(incidents)
    assert {f.level for f in findings} == {"error"}


def test_other_batches_of_its_group_stop_and_other_groups_go_on() -> None:
    lake, (one, two, three) = waiting_lake("one", "two", "three")
    lake.control.registrations.add_sharing([(one.uuid, three.uuid)])
    plans = gated(lake)
    lake.limits = ROOMY_SLOW
    first = min(one, three, key=lambda table: next(p.id for p in plans if p.table == table.name))
    deleter = Meanwhile(lake, first, add_files)
    outcome = {d.plan.table: d for d in apply_purges(lake.services(deleter=deleter), plans)}
    assert outcome[two.name].error is None
    assert outcome[two.name].plan.state is PlanState.APPLIED
    last = three if first is one else one
    assert isinstance(outcome[first.name].error, DeletedWhileNamed)
    assert isinstance(outcome[last.name].error, DeletedWhileNamed)
    assert outcome[last.name].files_purged == 0 < outcome[first.name].files_purged


def test_one_look_serves_the_wave_before_and_the_wave_after() -> None:
    lake, _ = waiting_lake("one", "two", "three")
    listings: list[int] = []

    def count(slow: bool) -> int:
        plans = gated(lake)
        lake.limits = ROOMY_SLOW if slow else ROOMY
        catalog = lake.catalogs["lake"]
        listing, asked = catalog.listing, []
        catalog.listing = lambda: asked.append(1) or listing()  # type: ignore[method-assign,func-returns-value]
        done = apply_purges(lake.services(), plans)
        catalog.listing = listing  # type: ignore[method-assign]
        assert all(one.error is None for one in done)
        return len(asked)

    listings.append(count(slow=True))
    lake, _ = waiting_lake("one", "two", "three")
    listings.append(count(slow=False))
    assert listings[0] - listings[1] == 2, "three waves list twice more than one"


def test_where_nobody_can_look_afterwards_the_purge_is_not_done_and_the_next_run_looks() -> None:
    lake, (table,) = waiting_lake("t")
    plans = gated(lake)

    def vanish(lake: Lake, table: Table) -> None:
        add_files(lake, table)
        lake.catalogs["lake"].unlistable = "no answer"

    deleter = Meanwhile(lake, table, vanish, after=True)
    (purged,) = apply_purges(lake.services(deleter=deleter), plans)
    assert isinstance(purged.error, CatalogUnlistable)
    assert purged.plan.state is PlanState.APPLYING
    assert lake.control.incidents.all() == []
    lake.catalogs["lake"].unlistable = ""
    run_on(lake, 20)
    assert [one.object for one in lake.control.incidents.all()] == [table.data("f0")]


def test_what_a_killed_purge_did_not_look_at_the_next_run_does() -> None:
    lake, (table,) = waiting_lake("t")
    plans = gated(lake)

    def die(lake: Lake, table: Table) -> None:
        add_files(lake, table)
        raise Killed("deleter.delete")

    with pytest.raises(Killed):
        apply_purges(lake.services(deleter=Meanwhile(lake, table, die, after=True)), plans)
    lake.let_leases_end()
    run_on(lake, 20)
    assert [one.object for one in lake.control.incidents.all()] == [table.data("f0")]


def test_a_new_object_that_is_committed_under_a_path_after_its_delete_is_no_incident() -> None:
    lake, (table,) = waiting_lake("t")
    plans = gated(lake)

    def write(lake: Lake, table: Table) -> None:
        lake.store.write(table.data("f0"), b"new")
        add_files(lake, table)

    deleter = Meanwhile(lake, table, write, after=True)
    (purged,) = apply_purges(lake.services(deleter=deleter), plans)
    assert purged.error is None and lake.control.incidents.all() == []
    lake.check_nothing_is_missing()


def hit_lake() -> tuple[Lake, Table, bytes]:
    lake, (table,) = waiting_lake("t")
    plans, content = gated(lake), lake.store.read(table.data("f0"))
    apply_purges(lake.services(deleter=Meanwhile(lake, table, add_files)), plans)
    assert lake.control.incidents.all()
    return lake, table, content


def test_an_incident_stands_until_the_file_is_there_again() -> None:
    lake, table, content = hit_lake()
    run_on(lake, 21)
    assert [one.object for one in lake.control.incidents.all()] == [table.data("f0")]
    lake.store.write(table.data("f0"), content)
    lake.on(22).run()
    assert lake.control.incidents.all() == []
    assert any(entry.action == "end incident" for entry in lake.control.audit.entries())


def test_an_incident_stands_until_nothing_names_the_file_any_more() -> None:
    lake, table, _ = hit_lake()
    table.overwrite("g")
    run_on(lake, 23)
    assert lake.control.incidents.all(), "the window keeps what names it"
    for day in (31, 40):
        run_on(lake, day)
    assert lake.control.incidents.all() == []
