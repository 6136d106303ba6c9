"""Plans: the digest binds every item, the id finds a retry's own, and only some moves exist."""

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.deletion.plan import TRANSITIONS, PlanKind, PlanState, plan_digest, plan_id
from meltline.domain.iceberg.files import FileKind, PlannedFile
from meltline.domain.iceberg.names import TableName
from tests.lives.histories import UUID, history
from tests.seeds import examples

MANY = settings(max_examples=examples(few=50, many=200), deadline=None, database=None)
OTHER = "9c6a2f0e-0000-4000-8000-000000000000"
FILES = st.builds(
    PlannedFile,
    path=st.text("abé/[]' %", min_size=1, max_size=8),
    kind=st.sampled_from(list(FileKind)),
    bytes=st.integers(0, 10),
    owner=st.just(UUID),
)
ITEMS = st.tuples(
    st.lists(st.integers(1, 2**62), unique=True, max_size=4),
    st.lists(st.text("abé_ ", min_size=1, max_size=4), unique=True, max_size=3),
    st.lists(FILES, unique_by=lambda file: (file.path, file.kind), max_size=4),
)
Items = tuple[list[int], list[str], list[PlannedFile]]


def lines(items: Items, table: str = UUID) -> list[tuple[str, str, str]]:
    """The digest's lines, from the words of the interface alone."""
    snapshots, refs, files = items
    rows = [(table, "snapshot", str(snapshot)) for snapshot in snapshots]
    rows += [(table, "ref", ref) for ref in refs]
    return rows + [(table, file.kind.value, file.path) for file in files]


@MANY
@given(ITEMS)
def test_the_digest_is_sha256_over_the_sorted_lines(items: Items) -> None:
    text = sorted("\t".join(row).encode("utf-8") + b"\n" for row in lines(items))
    assert plan_digest(UUID, *items) == "sha256:" + hashlib.sha256(b"".join(text)).hexdigest()


@MANY
@given(ITEMS, st.randoms())
def test_the_digest_does_not_depend_on_the_order(items: Items, random: object) -> None:
    shuffled = [list(part) for part in items]
    for part in shuffled:
        random.shuffle(part)  # type: ignore[attr-defined]
    assert plan_digest(UUID, *shuffled) == plan_digest(UUID, *items)  # type: ignore[arg-type]


@MANY
@given(ITEMS, ITEMS)
def test_the_digest_changes_with_any_item(one: Items, other: Items) -> None:
    same = plan_digest(UUID, *one) == plan_digest(UUID, *other)
    assert same is (sorted(lines(one)) == sorted(lines(other)))


def test_the_digest_of_another_table_is_another() -> None:
    assert plan_digest(UUID, [1], [], []) != plan_digest(OTHER, [1], [], [])


def test_a_snapshot_a_ref_and_a_file_of_one_name_are_three_things() -> None:
    file = PlannedFile("7", FileKind.DATA, 1, UUID)
    digests = {
        plan_digest(UUID, [7], [], []),
        plan_digest(UUID, [], ["7"], []),
        plan_digest(UUID, [], [], [file]),
        plan_digest(UUID, [], [], [replace(file, kind=FileKind.MANIFEST)]),
    }
    assert len(digests) == 4


def test_the_digest_of_nothing_is_known_and_approves_nothing_else() -> None:
    # PX-5
    assert plan_digest(UUID, [], [], []) == "sha256:" + hashlib.sha256(b"").hexdigest()
    assert plan_digest(UUID, [], [], []) != plan_digest(UUID, [1], [], [])


NAME = TableName("lake", ("air",), "flights")


def test_a_retry_of_the_same_plan_gets_the_same_id_and_anything_else_another() -> None:
    first = plan_id("r1", PlanKind.EXPIRE, NAME, "sha256:1")
    assert first == plan_id("r1", PlanKind.EXPIRE, NAME, "sha256:1")
    others = {
        plan_id("r2", PlanKind.EXPIRE, NAME, "sha256:1"),
        plan_id("r1", PlanKind.PURGE, NAME, "sha256:1"),
        plan_id("r1", PlanKind.EXPIRE, TableName("lake", ("air",), "x"), "sha256:1"),
        plan_id("r1", PlanKind.EXPIRE, NAME, "sha256:2"),
    }
    assert len(others | {first}) == 5


def test_an_id_says_its_kind_in_its_first_letter() -> None:
    assert plan_id("r", PlanKind.EXPIRE, NAME, "d").startswith("e")
    assert plan_id("r", PlanKind.PURGE, NAME, "d").startswith("p")


def test_only_a_plan_without_snapshots_refs_and_files_is_empty() -> None:
    plan = history().commit("S1", day=0).plan(day=1, window=7)
    assert plan.is_empty
    changes: list[dict[str, object]] = [{"snapshots": (1,)}, {"refs": ("t",)}, {"files": 1}]
    assert not any(replace(plan, **change).is_empty for change in changes)  # type: ignore[arg-type]


def test_every_state_has_its_moves_and_the_end_states_have_none() -> None:
    assert TRANSITIONS.keys() == set(PlanState)
    assert {state for state, to in TRANSITIONS.items() if not to} == {
        PlanState.STALE,
        PlanState.APPLIED,
    }


def test_nothing_is_applied_that_was_not_passed_and_begun() -> None:
    into = {state: {was for was, to in TRANSITIONS.items() if state in to} for state in PlanState}
    assert into[PlanState.APPLIED] == {PlanState.APPLYING}
    assert into[PlanState.APPLYING] == {PlanState.PASSED, PlanState.FAILED}
    assert into[PlanState.PLANNED] == set()
    assert into[PlanState.FAILED] == {PlanState.APPLYING}


@pytest.mark.parametrize("state", [PlanState.PLANNED, PlanState.REFUSED, PlanState.STALE])
def test_a_plan_without_a_passed_gate_cannot_be_begun(state: PlanState) -> None:
    assert PlanState.APPLYING not in TRANSITIONS[state]


@pytest.mark.parametrize("state", sorted(set(PlanState) - {PlanState.STALE, PlanState.APPLIED}))
def test_any_plan_that_is_not_at_its_end_can_go_stale(state: PlanState) -> None:
    assert PlanState.STALE in TRANSITIONS[state]
