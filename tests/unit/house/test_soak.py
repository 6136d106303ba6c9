"""What `make soak` counts, and that it notices a loss: a soak that cannot fail proves nothing."""

import json
import random
from datetime import timedelta
from pathlib import Path

import pytest

from tests.lives.unlucky_lives import UnluckyLifecycles
from tests.soak import figures
from tests.soak.__main__ import main
from tests.soak.figures import Figures
from tests.soak.kills import History
from tests.soak.lives import batch
from tests.soak.workers import SOURCES
from tests.soak.writer import SPACE, Writer, open_catalog
from tests.unit.lives.test_random_lifecycles import RandomLifecycles


class Careless(RandomLifecycles):
    """As soon as there are two data files, two are gone."""

    def pass_time(self, span: timedelta) -> None:
        super().pass_time(span)
        data = sorted(path for path in self.lake.needs() if path.endswith(".parquet"))
        if len(data) > 1:
            self.lake.store.delete(data[:2])


def test_lives_are_counted_with_what_befell_them(tmp_path: Path) -> None:
    told = batch(1, "abc", tmp_path, lambda: False, kinds=[UnluckyLifecycles], lives=3)
    assert told.histories >= 3 and told.events > 50 and told.checks > 50
    assert told.kills + told.faults and told.at_risk >= told.deleted > 0
    assert (told.seeds, told.commit) == ([1], "abc")


def test_lives_of_chunks_are_a_source_of_their_own(tmp_path: Path) -> None:
    chunks = SOURCES["chunks"](1, "abc", tmp_path, lambda: True)
    assert (chunks.source, chunks.histories, chunks.broken) == ("chunks", 1, 0)


def test_a_soak_that_is_over_ends_with_the_life_that_it_is_in(tmp_path: Path) -> None:
    assert batch(1, "abc", tmp_path, lambda: True).histories == 1


def test_files_lost_in_a_life_are_counted_and_the_life_is_kept(tmp_path: Path) -> None:
    told = batch(1, "abc", tmp_path, lambda: False, kinds=[Careless])
    assert (told.lost, told.broken) == (2, 1)
    assert told.failures[0].startswith("Careless, seed 1: I-1: needed and gone")
    (recording,) = tmp_path.iterdir()
    assert json.loads(recording.read_text())["life"] == "Careless"


def test_the_walker_misses_a_real_file_that_a_table_refers_to(tmp_path: Path) -> None:
    (tmp_path / "warehouse").mkdir()
    open_catalog(tmp_path).create_namespace(SPACE)
    Writer(tmp_path, 1).create()
    history = History(tmp_path, random.Random(1), Figures("abc", "kills"))
    history.look()
    assert history.figures.checks == 1 and history.needs
    (data,) = (tmp_path / "warehouse").rglob("*.parquet")
    data.unlink()
    with pytest.raises(AssertionError, match=f"needed and gone.*{data.name}"):
        history.look()
    assert history.figures.lost == 1


def test_the_figures_of_several_soaks_add_up_by_commit_and_a_loss_fails_the_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for histories, commit in ((2, "abc"), (3, "abc"), (4, "def")):
        figures.append(tmp_path, Figures(commit, "lives", histories=histories, seeds=[histories]))
    assert [(s.commit, s.histories, s.seeds) for s in figures.sums(figures.read(tmp_path))] == [
        ("abc", 5, [2, 3]),
        ("def", 4, [4]),
    ]
    assert main(["--summary", "--out", str(tmp_path)]) == 0
    figures.append(tmp_path, Figures("def", "kills", lost=1, broken=1, failures=["gone: x"]))
    assert main(["--summary", "--out", str(tmp_path)]) == 1
    assert "FAILED: gone: x" in capsys.readouterr().out
