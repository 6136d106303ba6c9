"""Words that stand in a file of their owner's, and not on a command line that anybody may read."""

import json
import os
import stat
from pathlib import Path

import pytest

from meltline.argfile import in_file, spelt_out
from meltline.cli.main import run
from meltline.cli.run.step import main
from meltline.domain.errors import UsageInvalid


def test_words_come_back_as_they_were_before_those_of_the_command_line(tmp_path: Path) -> None:
    words = ["--reason=a 'b'\nc", "@d", ""]
    assert spelt_out([in_file(tmp_path / "w", words), "--json"]) == [*words, "--json"]


@pytest.mark.parametrize("mask", [0, 0o022])
def test_only_their_owner_may_read_them(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        in_file(tmp_path / "w", ["x"])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "w").stat().st_mode) == 0o600


def test_a_file_that_is_there_already_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "w").touch(0o666)
    with pytest.raises(FileExistsError):
        in_file(tmp_path / "w", ["x"])


def test_only_the_first_word_may_name_a_file() -> None:
    assert spelt_out(["stop", "--reason", "@bob says so"]) == ["stop", "--reason", "@bob says so"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "stop"])
def test_what_is_no_list_of_words_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "w").write_text(text)
    with pytest.raises(UsageInvalid, match="w holds no words"):
        spelt_out([f"@{tmp_path / 'w'}"])


def test_a_command_takes_its_words_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "w").write_text(json.dumps(["storage", "--config", str(tmp_path / "no"), "--json"]))
    assert run([f"@{tmp_path / 'w'}"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "ConfigInvalid"
    assert run(["@nowhere"]) == 2
    assert "nowhere holds no words" in capsys.readouterr().err


def test_an_app_takes_its_words_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = in_file(tmp_path / "w", ["--run-id=r", "--who=ada"])
    with pytest.raises(SystemExit) as ended:
        main("observe", [told, f"--config={tmp_path / 'no'}", f"--summary={tmp_path / 's'}"])
    assert ended.value.code == 1
    assert "ConfigInvalid" in capsys.readouterr().err
