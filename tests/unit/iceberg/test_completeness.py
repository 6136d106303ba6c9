"""Completeness: what was read must add up to what the snapshot, or its parent, says."""

from collections.abc import Mapping

import pytest

from meltline.domain.iceberg.completeness import Totals, Verdict, check_totals
from meltline.domain.iceberg.files import ManifestFile, ManifestOutcome
from meltline.domain.iceberg.table_metadata import Snapshot
from tests.lives.histories import instant

PARENT, CHILD = 1, 2


def snapshot(**summary: str) -> Snapshot:
    named = {key.replace("_", "-"): value for key, value in summary.items()}
    return Snapshot(CHILD, instant(0), PARENT, summary=named)


def manifest(
    added: int | None, existing: int | None, deleted: int | None, by: int | None = PARENT,
    path: str = "m", *, deletes: bool = False,
) -> ManifestFile:  # fmt: skip
    return ManifestFile(path, 100, added, existing, deleted, by, is_deletes=deletes)


def totals(*manifests: ManifestFile, read: Mapping[str, ManifestOutcome] | None = None) -> Totals:
    return Totals.of(manifests, read or {})


def test_live_files_are_the_added_and_the_existing_ones() -> None:
    found = totals(manifest(3, 4, 5), manifest(1, 0, 0, deletes=True), manifest(0, 2, 1, CHILD))
    assert (found.data_files, found.deletes) == (9, 1)
    assert found.own == {PARENT: (4, 5), CHILD: (0, 1)}


def test_no_manifests_hold_no_files() -> None:
    assert totals() == Totals(0, 0, {})


def test_totals_that_match_are_complete() -> None:
    found = totals(manifest(3, 4, 0), manifest(2, 0, 0, deletes=True))
    verdict = check_totals(snapshot(total_data_files="7", total_delete_files="2"), found, None)
    assert verdict == Verdict(checked=True)


@pytest.mark.parametrize(
    ("summary", "key"),
    [
        ({"total_data_files": "8", "total_delete_files": "2"}, "total-data-files=8"),
        ({"total_data_files": "6", "total_delete_files": "2"}, "total-data-files=6"),
        ({"total_data_files": "7", "total_delete_files": "0"}, "total-delete-files=0"),
        ({"total_delete_files": "3"}, "total-delete-files=3"),
    ],
)
def test_totals_that_differ_are_a_problem_that_names_both_numbers(
    summary: dict[str, str], key: str
) -> None:
    found = totals(manifest(3, 4, 0), manifest(2, 0, 0, deletes=True))
    verdict = check_totals(snapshot(**summary), found, found)
    assert verdict.checked
    assert key in verdict.problem


def test_without_totals_the_parent_and_the_own_changes_must_give_the_same() -> None:
    parent = totals(manifest(5, 0, 0))
    child = totals(manifest(0, 4, 1, CHILD), manifest(3, 0, 0, CHILD, deletes=True))
    assert check_totals(snapshot(), child, parent) == Verdict(checked=True)


def test_a_manifest_missing_from_the_list_is_found_by_the_parent() -> None:
    parent = totals(manifest(5, 0, 0), manifest(7, 0, 0))
    child = totals(manifest(5, 0, 0), manifest(1, 0, 0, CHILD))
    verdict = check_totals(snapshot(), child, parent)
    assert verdict.checked
    assert "6 live files" in verdict.problem
    assert "13" in verdict.problem


def test_manifests_written_anew_by_the_snapshot_change_nothing() -> None:
    parent = totals(manifest(5, 0, 0), manifest(7, 0, 0))
    assert check_totals(snapshot(), totals(manifest(0, 12, 0, CHILD)), parent).problem == ""


def test_without_totals_and_parent_nothing_could_be_checked() -> None:
    found = totals(manifest(1, 0, 0))
    assert check_totals(snapshot(), found, None) == Verdict(checked=False)
    unread = Totals(None, None, {})
    assert check_totals(snapshot(), found, unread) == Verdict(checked=False)


@pytest.mark.parametrize("odd", ["", "many", "-7", "7.0"])
def test_totals_that_are_no_numbers_check_nothing(odd: str) -> None:
    found = totals(manifest(7, 0, 0))
    verdict = check_totals(snapshot(total_data_files=odd), found, None)
    assert verdict == Verdict(checked=False)


def test_where_only_one_total_stands_the_parent_still_has_to_fit() -> None:
    gone = manifest(4, 0, 0, path="deletes", deletes=True)
    parent = totals(manifest(7, 0, 0), gone)
    child = totals(manifest(7, 0, 0))  # the delete manifest was lost on the way
    assert check_totals(snapshot(total_data_files="7"), child, parent).problem


def test_format_1_without_counts_takes_them_from_the_manifests_read() -> None:
    outcome = ManifestOutcome("m", added=2, existing=3, deleted=1)
    found = totals(manifest(None, None, None), read={"m": outcome})
    assert found == Totals(5, 0, {PARENT: (2, 1)})


@pytest.mark.parametrize(
    "counts", [(None, None, None), (None, 1, 1), (1, None, 1), (1, 1, None)]
)  # fmt: skip
def test_a_count_that_is_missing_and_was_not_read_leaves_all_unknown(
    counts: tuple[int | None, int | None, int | None],
) -> None:
    assert totals(manifest(1, 1, 1), manifest(*counts)) == Totals(None, None, {})
    failed = {"m": ManifestOutcome("m", added=1, error="cut short")}
    found = totals(manifest(*counts), read=failed)
    assert found == Totals(None, None, {})
    verdict = check_totals(snapshot(total_data_files="0"), found, found)
    assert verdict == Verdict(checked=False)
