"""What people see of consumers: explain, doctor, the list, the audit."""

import json

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.refs.tags import list_tags, remove_tag
from meltline.app.retention.consumers import find_consumers, remove_consumer, set_consumer
from meltline.app.storage.explain import explain_path, explain_table
from meltline.domain.errors import (
    ConsumerNotFound,
    NameConflict,
)
from meltline.domain.units import to_millis
from tests.lake.lake import DAY, T0
from tests.unit.retention.test_consumers import REMEMBERED, read_to, written


def test_explain_names_the_consumer_its_snapshot_its_last_move_and_its_end() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[2], days=5)
    said = (
        f"consumer bill has read to {table.name}@{every[2]}, "
        "last moved 2026-01-21T00:00:00Z, ends 2026-01-26T00:00:00Z"
    )
    explained = explain_table(lake.services(), table.name)
    assert {e.due_at for e in explained if e.consumers} == {T0 + 25 * DAY, None}  # and the head
    told = {e.path: e.consumers for e in explained}
    assert told[f"{table.name}@{every[1]}"] == ()
    assert told[f"{table.name}@{every[2]}"] == told[f"{table.name}@{every[4]}"] == (said,)
    lake.run()
    found = explain_path(lake.services(), table.data("t3"))
    assert (found.keep_reasons, found.consumers) == (("consumer",), (said,))


def test_doctor_names_a_consumer_that_keeps_much_and_how_to_let_go() -> None:
    lake, table = written(40)
    lake.on(60)
    read_to(lake, table, table.snapshots[2], days=100)
    lake.run()
    (found,) = [f for f in examine(lake.services()) if f.code.startswith("consumer_")]
    assert (found.level, found.code) == ("warning", "consumer_keeps_much")
    assert "37 of 38 snapshots" in found.message and "consumer bill" in found.message
    assert f"meltline consumer remove {table.name} bill" in found.fix
    read_to(lake, table, table.head)
    assert not [f for f in examine(lake.services()) if f.code.startswith("consumer_")]


@pytest.mark.parametrize(("days", "before"), [(40, 7), (8, 2), (1, 0.25)])
def test_before_a_consumer_ends_doctor_and_the_runs_summary_say_so(
    days: float, before: float
) -> None:
    lake, table = written(2)
    made = read_to(lake, table, table.head, days=days)

    def soon() -> list[str]:
        return [f.message for f in examine(lake.services()) if f.code == "consumer_ends_soon"]

    lake.on(20 + days - before - 0.01)
    assert soon() == [] and made.sentence not in lake.run().notices
    lake.on(20 + days - before)
    assert soon() == [made.sentence] and made.sentence in lake.run().notices
    lake.on(20 + days + 0.01)
    assert soon() == []


def test_what_was_moved_by_an_engine_or_has_lost_its_words_still_keeps() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[1], days=9)
    table.tag("consumer__bill", every[2])  # CREATE OR REPLACE TAG, without an age
    (moved,) = find_consumers(lake.services()).consumers
    assert explain_table(lake.services(), table.name, every[2])[0].due_at is None
    assert (moved.snapshot_id, moved.moved_at, moved.ends_at) == (every[2], None, None)
    table.configure(**{REMEMBERED: "no words"})
    lake.on(4000).run()
    assert table.snapshots == every[2:]
    assert read_to(lake, table, every[3], days=9).ends_at == T0 + 4009 * DAY


def test_who_moved_a_consumer_where_and_when_stands_in_the_catalog_and_the_audit() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[2], days=5)
    read_to(lake, table, every[1], reset=True)
    said = json.loads(table.document["properties"][REMEMBERED])
    assert said == {
        "who": "tester",
        "snapshot": every[1],
        "moved": "2026-01-21T00:00:00Z",
        "keep": "5d",
    }
    age = to_millis(T0 + 25 * DAY) - table.snapshot(every[1])["timestamp-ms"]
    assert table.refs["consumer__bill"] == {
        "snapshot-id": every[1],
        "type": "tag",
        "max-ref-age-ms": age,
    }
    remove_consumer(lake.services(), table.name, "bill")
    assert REMEMBERED not in table.document["properties"] and table.refs.keys() == {"main"}
    told = [
        (e.action, e.object, e.who) for e in lake.control.audit.entries() if "consumer" in e.action
    ]
    assert told == [
        ("consumer set", f"{table.name}@{every[2]}", "tester"),
        ("consumer reset", f"{table.name}@{every[1]}", "tester"),
        ("consumer remove", f"{table.name}@{every[1]}", "tester"),
    ]


def test_a_dry_run_answers_the_same_and_changes_nothing() -> None:
    lake, table = written()
    at, services = table.metadata_location, lake.services()
    would = set_consumer(services, table.name, "bill", table.head, dry_run=True)
    assert table.metadata_location == at
    assert read_to(lake, table, table.head) == would
    at = table.metadata_location
    assert remove_consumer(services, table.name, "bill", dry_run=True) == would
    assert table.metadata_location == at


def test_what_is_not_there_is_not_removed_and_named() -> None:
    lake, table = written(2)
    read_to(lake, table, table.head, name="fraud")
    with pytest.raises(ConsumerNotFound) as refused:
        remove_consumer(lake.services(), table.name, "bill")
    assert (refused.value.expected, refused.value.found) == ("fraud", "bill")


def test_a_consumer_is_listed_among_the_tags_and_no_untag_ends_it() -> None:
    lake, table = written(2)
    read_to(lake, table, table.head, days=5)
    (found,) = list_tags(lake.services(), table.name)
    assert (found.name, found.kind, found.expires_at) == (
        "consumer__bill",
        "consumer",
        T0 + 25 * DAY,
    )
    with pytest.raises(NameConflict) as refused:
        remove_tag(lake.services(), table.name, "consumer__bill", dry_run=False)
    assert "consumer remove" in refused.value.next


def test_a_table_that_cannot_be_looked_into_is_named_in_the_list() -> None:
    lake, table = written(2)
    lost = lake.table("lost")
    read_to(lake, table, table.head)
    lake.spoil(lost.metadata_location)
    found = find_consumers(lake.services())
    assert [c.name for c in found.consumers] == ["bill"]
    assert list(found.unreadable) == [str(lost.name)]
