"""A refusal names its cause, and what follows from that as such."""

from collections.abc import Callable

import pytest

from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.observe.observe import observe
from meltline.app.run.gate_step import run_gate
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanState
from tests.lake.lake import Lake, Table


def planned() -> tuple[Lake, Table, list[Plan]]:
    """A table of four indexed snapshots; on day 12 three of them are planned, nothing is judged."""
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}") if day % 2 == 0 else table.append(f"f{day}")
        lake.run()
    services = lake.on(12).services()
    found = plan_expiration(services, observe(services), run_id="x", as_of=lake.clock.now())
    return lake, table, [one.plan for one in found]


def judged(lake: Lake, plans: list[Plan]) -> tuple[Plan, GateResult]:
    ((plan, result),) = run_gate(lake.services(), plans)
    return plan, result


def manifest(lake: Lake, table: Table) -> str:
    return lake.manifests[table.manifest_list(table.head)][-1].path


def cut(lake: Lake, path: str) -> None:
    content = lake.store.read(path)
    lake.store.write(path, content[: len(content) // 2])


def manifest_cut(lake: Lake, table: Table) -> str:
    cut(lake, manifest(lake, table))
    return manifest(lake, table)


def manifest_gone(lake: Lake, table: Table) -> str:
    path = manifest(lake, table)
    lake.store.delete([path])
    return path


def list_cut(lake: Lake, table: Table) -> str:
    cut(lake, table.manifest_list(table.head))
    return table.manifest_list(table.head)


def list_changed(lake: Lake, table: Table) -> str:
    other = lake.store.read(table.manifest_list(table.snapshots[1]))
    lake.store.write(table.manifest_list(table.head), other)
    return table.manifest_list(table.head)


def metadata_cut(lake: Lake, table: Table) -> str:
    path = table.metadata_location
    cut(lake, path)
    return path


@pytest.mark.parametrize(
    "spoil", [manifest_cut, manifest_gone, list_cut, list_changed, metadata_cut]
)
def test_what_was_spoilt_after_it_was_indexed_is_the_reason_and_the_rest_follows_from_it(
    spoil: Callable[[Lake, Table], str],
) -> None:
    lake, table, plans = planned()
    path = spoil(lake, table)
    plan, result = judged(lake, plans)
    assert plan.state is PlanState.REFUSED
    first, *others = result.failed
    assert first.fact == "unreadable" and path in first.object
    assert set(others) <= set(result.consequences)
    assert plan.note.startswith("unreadable is 0") and path in plan.note
    assert "planned_referenced is 0" not in plan.note
    assert not others or "and what follows from that: " in plan.note


def test_totals_that_do_not_add_up_are_no_reason_beside_the_manifest_that_cannot_be_read() -> None:
    lake, table, plans = planned()
    manifest_cut(lake, table)
    _, result = judged(lake, plans)
    assert result.failed[0].observed == "1" and "summary says" not in result.failed[0].object


def test_a_planned_file_that_is_needed_is_a_reason_of_its_own_where_everything_can_be_read() -> (
    None
):
    lake, table, plans = planned()
    table.append("f0")
    plan, result = judged(lake, plans)
    assert result.failed_on("planned_referenced") and not result.consequences
    assert plan.note.startswith("planned_referenced is 0")
