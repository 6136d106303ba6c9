"""What executors say of themselves, and what is made of it. Their code runs here as it stands."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from meltline.adapters.spark import executors
from meltline.adapters.spark.executors import (
    EXECUTOR_MODULES,
    executor_answer,
    package_archive,
    problems_of,
    runs_here,
)
from meltline.version import VERSION

ADAPTERS = Path(executors.__file__).parents[1]


def said(archive: str, *folders: str, modules: tuple[str, ...] = ()) -> set[str]:
    """The problems of an executor that is this process."""
    answers = list(executor_answer(archive, modules, folders)(iter([0])))
    listing = {folder: set(answers[0]["names"].get(folder, ())) for folder in folders}
    return problems_of(answers, listing, listing)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_master_has_its_executors_here(master: str) -> None:
    assert runs_here(master)


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://h:7077", "yarn", "k8s://h"])
def test_any_other_master_has_them_elsewhere(master: str) -> None:
    assert not runs_here(master)


def test_every_module_that_hands_work_to_executors_is_tried_there() -> None:
    handing = {
        "meltline.adapters." + ".".join(file.relative_to(ADAPTERS).with_suffix("").parts)
        for file in ADAPTERS.rglob("*.py")
        if "mapInArrow(" in file.read_text() or "mapPartitions(" in file.read_text()
    }
    assert handing - {executors.__name__} == set(EXECUTOR_MODULES)


def test_an_executor_with_another_build_of_meltline_has_a_problem() -> None:
    (problem,) = said("meltline-0.0.9-0123456789ab.zip")
    assert "another Meltline" in problem and "__init__.py" in problem
    assert said(str(Path(executors.__file__).parents[2])) == set()  # as if that were the archive


def test_a_module_that_an_executor_lacks_is_named() -> None:
    (problem,) = said("x", modules=("obstore_of_nobody",))
    assert "No module named 'obstore_of_nobody'" in problem


def test_a_folder_that_looks_otherwise_from_an_executor_is_another_one() -> None:
    def problems(seen: set[str], before: set[str], after: set[str]) -> set[str]:
        answer = {"who": "w", "problem": "", "names": {"file:///w": sorted(seen)}}
        return problems_of([answer], {"file:///w": before}, {"file:///w": after})

    assert problems({"a", "b"}, {"a", "b"}, {"a", "b"}) == set()
    assert problems({"a", "new"}, {"a"}, {"a", "new"}) == set()  # it came meanwhile
    assert problems({"a"}, {"a", "gone"}, {"a"}) == set()
    assert problems(set(), {"a"}, {"a"})
    assert problems({"a", "other"}, {"a"}, {"a"})


def test_the_archive_has_every_module_and_its_name_says_which_build_it_is(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    archive, again = package_archive(tmp_path), package_archive(tmp_path / "again")
    assert archive.name == again.name and archive.read_bytes() == again.read_bytes()
    assert archive.name.startswith(f"meltline-{VERSION}-")
    with ZipFile(archive) as written:
        names = set(written.namelist())
    assert {module.replace(".", "/") + ".py" for module in EXECUTOR_MODULES} <= names
    assert "meltline/__init__.py" in names and all(name.endswith(".py") for name in names)
