"""A typo in cron deletes nothing for months: a run names what it was asked for and cannot find."""

from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.similar_names import similar
from meltline.domain.retention.policy import ENABLED
from tests.lake.lake import Lake


def lake_of(*names: str, **properties: str) -> Lake:
    lake = Lake()
    for name in names:
        lake.table(name, properties=properties).overwrite("a")
    return lake


def test_a_glob_that_no_table_matches_is_named_and_the_others_are_worked_on() -> None:
    lake = lake_of("lake.air.flights", "lake.air.planes")
    summary = lake.run(tables=("lake.air.planes", "lake.air.fligths", "other.*"))
    assert summary.exit_code == 4 and summary.tables.keys() == {"lake.air.planes"}
    assert summary.notes == [
        "no table matches lake.air.fligths; did you mean lake.air.flights?",
        "no table matches other.*",
    ]


def test_a_short_name_is_answered_with_the_full_one() -> None:
    summary = lake_of("lake.air.flights").run(tables=("flights",))
    assert summary.notes[0] == "no table matches flights; did you mean lake.air.flights?"
    assert summary.exit_code == 4


def test_a_run_over_tables_of_which_none_is_managed_does_not_look_like_success() -> None:
    summary = lake_of("lake.air.t", "lake.air.u", **{ENABLED: "false"}).run()
    assert summary.exit_code == 4
    assert "none of the 2 tables" in summary.notes[0] and "lake.air.t" in summary.notes[0]


def test_a_run_over_catalogs_without_a_table_does_not_look_like_success() -> None:
    summary = Lake().run()
    assert summary.exit_code == 4 and "no table at all" in summary.notes[0]


def test_a_run_over_something_managed_says_nothing_of_the_kind() -> None:
    lake = lake_of("lake.air.t", **{ENABLED: "false"})
    lake.table("lake.air.u").overwrite("b")
    for globs in ((), ("lake.air.*",), ("lake.air.u",)):
        summary = lake.run(tables=globs)
        assert (summary.exit_code, summary.notes) == (0, [])


def test_names_are_alike_by_their_last_part_first_and_never_twice() -> None:
    names = [TableName.parse(name) for name in ("lake.air.flights", "lake.sea.flights", "x.y.z")]
    assert similar("flights", names) == names[:2]
    assert similar("lake.air.FLIGHTS", names) == names[:2]
    assert similar("lake.air.flihgts", names)[0] == names[0]
    assert similar("flihgts", names)[0].name == "flights"
    assert similar("nothing like it", names) == []
