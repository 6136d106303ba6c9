"""A snapshot that has left hot for the archive is named as archived by whoever is asked (AR-44)."""

from collections.abc import Callable
from typing import Any

import pytest

from meltline.app.refs.branches import rollback
from meltline.app.refs.tags import add_tag
from meltline.app.retention.holds import add_hold
from meltline.app.services import ReadContext
from meltline.app.sql.statements import StatementRequest, run_statement
from meltline.app.storage.explain import explain_table
from meltline.domain.errors import SnapshotNotFound
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.timeline import Point
from tests.lake.lake import Lake, Table
from tests.unit.archive.test_handoff import daily

NAME = TableName.parse("lake.air.t")


def archived() -> tuple[Lake, Table, int]:
    """A table, and a snapshot of it that cold has and hot has no more."""
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    before = set(table.snapshots)
    lake.on(12).run()
    (copy, *_) = lake.control.archived.all([table.uuid])
    assert copy.snapshot_id in before - set(table.snapshots)
    return lake, table, copy.snapshot_id


def by_sql(context: ReadContext, text: str) -> None:
    def no_engine(*_: Any, **__: Any) -> Any:
        raise AssertionError("a JVM was started for nothing")

    request = StatementRequest(text, ObjectName("lake", ("air",)))
    run_statement(context, no_engine, request, no_engine)


ASKED: list[Callable[[ReadContext, int], object]] = [
    lambda context, number: add_tag(context, NAME, "q", Point(number), 9, dry_run=False),
    lambda context, number: add_hold(context, f"{NAME}@{number}", reason="audit"),
    lambda context, number: rollback(context, NAME, Point(number), dry_run=False),
    lambda context, number: by_sql(context, f"TAG SNAPSHOT {number} AS 'q' WITH RETENTION FOREVER"),
    lambda context, number: by_sql(
        context, f"TAG SNAPSHOT {number} OF t AS 'q' WITH RETENTION FOREVER"
    ),
]


@pytest.mark.parametrize("ask", ASKED)
def test_what_is_in_cold_alone_is_named_with_the_ways_to_it(
    ask: Callable[[ReadContext, int], object],
) -> None:
    # AR-44
    lake, table, number = archived()
    before = table.document
    with pytest.raises(
        SnapshotNotFound, match=f"snapshot {number} of {NAME} is archived"
    ) as refused:
        ask(lake.services(), number)
    assert "in the archive, kept until" in refused.value.found
    assert f"--from-cold {NAME} --snapshot {number}" in refused.value.next
    assert "--allow-cold" in refused.value.next and table.document == before
    with pytest.raises(SnapshotNotFound) as unknown:
        ask(lake.services(), 4729)
    assert "archived" not in unknown.value.message


def test_explain_says_where_it_is_and_until_when() -> None:
    lake, table, number = archived()
    (copy, *_) = lake.control.archived.all([table.uuid])
    (found,) = explain_table(lake.services(), NAME, number)
    assert (found.stage, found.keep_reasons) == ("cold", ("archived",))
    assert (found.path, found.due_at) == (f"{NAME}@{number}", copy.keep_until)
    assert found.referenced_by == (copy.cold_location,)
