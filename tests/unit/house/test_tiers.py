"""Every test file is in one tier, CI runs every tier, and durations are compared with markers."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.seeds import beginnings, chosen_seed, examples
from tests.tiers.__main__ import PytestRun, main, processes
from tests.tiers.declared import FILES, Tier, part_of, tier_of_case, tier_of_file
from tests.tiers.durations import (
    FileDurations,
    as_table,
    read,
    stored,
    with_table,
    without_reason,
    write,
)

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "tests"
ALL_FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))


def collected(tier: Tier) -> set[str]:
    """Returns the test files that the processes of a tier collect and do not leave out."""
    paths = {path for each in processes(tier) for path in each.paths}
    assert all(path.is_dir() for path in paths)
    below = {
        file.relative_to(TESTS).as_posix() for path in paths for file in path.rglob("test_*.py")
    }
    return {file for file in below if tier_of_file(file) <= tier}


def test_every_test_file_is_in_exactly_one_tier() -> None:
    tiers = {file: tier_of_file(file) for file in ALL_FILES}
    assert set(tiers.values()) == set(Tier)
    for entry in FILES:
        inside = [file for file in ALL_FILES if file == entry or file.startswith(f"{entry}/")]
        assert inside, f"{entry} names no test file"


@pytest.mark.parametrize("tier", Tier)
def test_a_run_of_a_tier_collects_each_of_its_files_once(tier: Tier) -> None:
    assert collected(tier) == {file for file in ALL_FILES if tier_of_file(file) <= tier}
    paths = [path for each in processes(tier) for path in each.paths]
    assert len(paths) == len(set(paths))


def test_ci_runs_every_tier_but_the_nightly_one() -> None:
    targets = dict(
        re.findall(r"^([a-z-]+):[^\n]*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    )
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.findall(r"^make (.+)$", script, re.MULTILINE) == ["test-all"]
    assert "tests.tiers all" in targets["test-all"]
    assert collected(Tier.QUICK) < collected(Tier.TEST) < collected(Tier.ALL)
    for name in ("quick", "test", "nightly"):
        assert f"tests.tiers {name}" in targets[name]


def test_a_file_that_no_entry_names_is_an_error() -> None:
    with pytest.raises(KeyError, match="is in no tier"):
        tier_of_file("elsewhere/test_a.py")


def test_the_longest_entry_that_names_a_file_is_its_tier() -> None:
    assert tier_of_file("unit/plan/test_plan.py") is Tier.QUICK
    assert tier_of_file("unit/lives/test_kept_lives.py") is Tier.TEST


def test_a_real_part_raises_the_tier_of_one_case() -> None:
    path = "contract/catalogs/test_catalog.py"
    parts = [part_of(names) for names in (["memory"], ["sqlite", "v2"], ["spark", "postgres"])]
    assert parts == ["plain", "sqlite", "postgres"]
    assert [tier_of_case(path, part) for part in parts] == [Tier.QUICK, Tier.TEST, Tier.ALL]


def test_a_run_with_workers_keeps_the_groups_together() -> None:
    spread = PytestRun((TESTS,), 2).command(["-x"])
    assert "loadgroup" in spread and spread[-2:] == ["-x", str(TESTS)]
    assert "-n" not in PytestRun((TESTS,), 0).command([])


def test_a_tier_that_runs_parts_of_files_stores_no_durations() -> None:
    assert main(["test", "--record"]) == 2


# --- seeds and sizes -----------------------------------------------------------------------------


def test_random_tests_are_few_at_fixed_seeds_unless_a_larger_tier_runs() -> None:
    small: list[dict[str, str]] = [{}, {"MELTLINE_TIER": "test"}, {"CI": "true"}]
    for environment in small:
        assert chosen_seed(environment) == 0
        assert examples(3, 30, environment) == 3
        assert beginnings(3, 30, environment, seed=7) == [(0, 3)]


def test_the_larger_tiers_draw_new_seeds_which_all_processes_of_a_run_share() -> None:
    large = {"MELTLINE_TIER": "all"}
    assert len({chosen_seed(large) for _ in range(3)}) == 3
    assert chosen_seed(large | {"MELTLINE_DRAWN_SEED": "5"}) == 5
    assert beginnings(3, 30, large, seed=5) == [(0, 23), (5, 7)]
    assert beginnings(3, 30, large, seed=5, draws_new=False) == [(0, 30)]


def test_a_given_seed_or_number_of_examples_wins() -> None:
    given = {"MELTLINE_TIER": "all", "MELTLINE_SEED": "12", "MELTLINE_DRAWN_SEED": "5"}
    assert chosen_seed(given) == 12
    assert beginnings(3, 30, given, seed=12) == [(12, 30)]
    assert len({chosen_seed({"MELTLINE_EXAMPLES": "9"}) for _ in range(3)}) == 3
    assert examples(3, 30, {"MELTLINE_EXAMPLES": "9"}) == 9


# --- durations -----------------------------------------------------------------------------------

SLOW_FILE = """
import pytest

@pytest.mark.slow("a whole night")
def test_with_a_reason(): ...

@pytest.mark.slow()
def test_with_an_empty_marker(): ...

def test_without(): ...
"""


def test_a_test_above_ten_seconds_needs_a_reason(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(SLOW_FILE)
    names = ("test_with_a_reason", "test_with_an_empty_marker", "test_without")
    longest = dict.fromkeys(names, 10.5) | {"test_quick": 9.5}
    wrong = without_reason({"test_a.py": FileDurations({}, longest)}, tmp_path)
    assert [line.split()[0].partition("::")[2] for line in wrong] == list(names[1:])


def test_a_reason_for_a_whole_file_covers_its_tests(tmp_path: Path) -> None:
    text = 'import pytest\npytestmark = [pytest.mark.spark, pytest.mark.slow("a cluster")]\n'
    (tmp_path / "test_a.py").write_text(text)
    assert not without_reason({"test_a.py": FileDurations({}, {"test_a": 11})}, tmp_path)


def test_no_stored_duration_lacks_its_reason() -> None:
    assert without_reason(stored()) == []


def test_most_test_files_have_a_stored_duration() -> None:
    """Files that were added since the last `make durations` have none."""
    assert len(set(ALL_FILES) & set(stored())) > 0.9 * len(ALL_FILES)


def test_durations_that_are_written_are_read_again(tmp_path: Path) -> None:
    durations = {"unit/test_a.py": FileDurations({"plain": (3, 1.5)}, {"test_b": 12.5})}
    write(tmp_path / "durations.json", durations)
    assert read(tmp_path / "durations.json") == durations


def test_a_page_keeps_what_is_around_its_table() -> None:
    page = "before\n<!-- durations -->\nold\n<!-- end of durations -->\nafter\n"
    assert with_table(page, "new") == page.replace("old", "new")
    assert with_table(page.replace("old\n", ""), "old") == page


def test_the_page_has_the_table_of_the_stored_durations() -> None:
    assert as_table(stored()) in (ROOT / "docs" / "develop.md").read_text("utf-8")


SHARED_CASES = """
import pytest

@pytest.mark.spark
@pytest.mark.parametrize("number", range(6))
def test_a(number, worker_id): open(f"{__file__}.{worker_id}", "w").close()
"""


def test_cases_with_a_shared_part_run_in_one_worker(tmp_path: Path) -> None:
    """A version of pytest or of xdist that ignores the groups would start a session in each."""
    (tmp_path / "test_shared.py").write_text(SHARED_CASES)
    command = PytestRun((tmp_path,), 2).command(["-p", "tests.conftest", "-c", os.devnull])
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "6 passed" in done.stdout
    assert len(list(tmp_path.glob("test_shared.py.gw*"))) == 1
