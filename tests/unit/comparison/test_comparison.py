"""Two builds on the same lakes: the same decide alike, and one that was broken does not."""

import shutil
from pathlib import Path

import pytest

from tests.comparison.__main__ import CHECKOUT, decisions_of, differences_between, record_lives

ENDS = "include/meltline/domain/retention/retained_snapshots.py"


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings"
    folder.mkdir()
    record_lives(folder, 3, seed=0)
    return folder


@pytest.mark.slow("each build lives lives of its own process")
def test_a_build_decides_like_itself_and_one_that_keeps_no_window_does_not(
    recordings: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    for part in ("include", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / part, broken / part, ignore=ignored)
    text = (broken / ENDS).read_text()
    line = "        (KeepReason.WINDOW, _in_window(request, ends)),\n"
    assert text.count(line) == 1
    (broken / ENDS).write_text(text.replace(line, ""))
    as_it_is = decisions_of(CHECKOUT, "lives", recordings)
    assert sum(len(lake["plans"]) for lake in as_it_is.values()) > 10
    assert not list(differences_between(as_it_is, decisions_of(CHECKOUT, "lives", recordings)))
    differing = list(differences_between(as_it_is, decisions_of(broken, "lives", recordings)))
    assert any("plans: " in sentence and "expire" in sentence for sentence in differing)


def test_a_difference_names_the_lake_and_shows_both_sides() -> None:
    old = {"a": {"end": "well", "plans": ["x", "x"]}, "b": {"plans": ["y"]}}
    new = {"a": {"end": "well", "plans": ["x", "z"]}, "b": {"plans": ["y"]}}
    assert list(differences_between(old, new)) == ["a: 2 differ\n  - plans: x\n  + plans: z"]
    assert list(differences_between(old, {"a": old["a"]})) == ["b: 1 differ\n  - plans: y"]
    assert not list(differences_between(old, old))
