"""Groups: whoever shares files, directly or through others, stands and falls together."""

from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.deletion.sharing_groups import Groups
from tests.seeds import examples

TABLES = "abcdefgh"


def test_a_table_that_shares_nothing_is_its_own_group() -> None:
    groups = Groups([("a", "b")])
    assert groups.members("z") == {"z"}
    assert groups.key("z") == "z"
    assert groups.blocked({"z": "unreadable"}) == {"z": "unreadable"}


def test_forks_of_forks_and_many_forks_are_one_group() -> None:
    groups = Groups([("c", "b"), ("b", "a"), ("a", "d"), ("x", "y")])
    assert groups.members("d") == {"a", "b", "c", "d"}
    assert {groups.key(member) for member in "abcd"} == {"a"}
    assert groups.members("y") == {"x", "y"}


def test_a_pair_with_itself_and_a_pair_told_twice_change_nothing() -> None:
    groups = Groups([("a", "a"), ("a", "b"), ("b", "a"), ("a", "b")])
    assert groups.members("a") == {"a", "b"}


def test_what_stops_one_table_stops_its_group_and_nobody_else() -> None:
    groups = Groups([("a", "b"), ("x", "y")])
    blocked = groups.blocked({"b": "its manifest is corrupt"})
    assert blocked.keys() == {"a", "b"}
    assert blocked["b"] == "its manifest is corrupt"
    assert "its manifest is corrupt" in blocked["a"]
    assert "shares files" in blocked["a"]


def test_a_table_keeps_its_own_reason_when_another_of_its_group_is_stopped_too() -> None:
    blocked = Groups([("a", "b")]).blocked({"a": "one", "b": "two"})
    assert blocked == {"a": "one", "b": "two"}


PAIRS = st.lists(st.tuples(st.sampled_from(TABLES), st.sampled_from(TABLES)), max_size=10)


@settings(max_examples=examples(few=75, many=300), deadline=None, database=None)
@given(PAIRS)
def test_a_group_is_whatever_can_be_reached_over_pairs(pairs: list[tuple[str, str]]) -> None:
    groups = Groups(pairs)
    for start in TABLES:
        reached = {start}
        while more := {b for p in pairs for a, b in (p, p[::-1]) if a in reached} - reached:
            reached |= more
        assert groups.members(start) == reached
        assert groups.key(start) == min(reached)
        assert groups.blocked({start: "x"}).keys() == reached
