"""A run's options are declared once; forms, commands and apps ask for them, and agree."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.app.run_request import OPTIONS, RunRequest
from meltline.cli.main import run
from meltline.cli.run.step import app_parser
from meltline.domain.chunks.sync import Deletes
from meltline.domain.deletion.orphans import Inventory
from meltline.domain.errors import UsageInvalid

NOW = datetime(2026, 3, 2, tzinfo=UTC)
SUMMARY = "--summary=s"

words = st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1).filter(
    lambda text: text == text.strip()
)
requests = st.builds(
    RunRequest,
    run_id=words,
    as_of=st.just(NOW),
    tables=st.lists(words, max_size=3).map(tuple),
    dry_run=st.booleans(),
    any_hour=st.booleans(),
    parallelism=st.none() | st.integers(1, 1000),
    minimum_age=st.none() | st.integers(0, 10**6).map(lambda seconds: timedelta(seconds=seconds)),
    inventory=st.none() | words.map(Inventory),
    approve=st.just("") | words,
    once=st.just("") | words,
    chunks=st.lists(words, max_size=3).map(tuple),
    force=st.just("") | words,
    deletes=st.none() | st.sampled_from(Deletes),
    who=st.just("") | words,
)


@given(requests)
def test_an_app_is_asked_for_just_what_its_words_were_made_of(request: RunRequest) -> None:
    line = [*request.words(private=True), *request.words(), SUMMARY]
    asked = vars(app_parser("observe").parse_args(line))
    assert RunRequest.read(asked["run_id"], request.as_of, asked) == request


@given(requests)
def test_what_others_may_not_read_is_never_among_the_other_words(request: RunRequest) -> None:
    private = {word.partition("=")[0] for word in request.words(private=True)}
    public = {word.partition("=")[0] for word in request.words()}
    assert private <= {"--who", "--approve", "--once", "--force"}
    assert public.isdisjoint({"--who", "--approve", "--once", "--force"})


def test_what_is_empty_is_not_asked_for() -> None:
    written = {"tables": " , ", "minimum_age": "", "inventory": None, "dry_run": False, "x": "y"}
    assert RunRequest.read("r", NOW, written) == RunRequest("r", NOW)


def test_what_cannot_be_read_is_refused_by_its_option() -> None:
    with pytest.raises(UsageInvalid, match="--minimum-age is not a duration"):
        RunRequest.read("r", NOW, {"minimum_age": "three days"})


@pytest.mark.parametrize(
    "asked, said",
    [
        ({"chunks": "2026-01-01"}, "and a reason"),
        ({"force": "why not"}, "the chunks by name"),
        ({"force": "why not", "chunks": "2026-01-01", "tables": ""}, "about one table"),
        ({"force": "why not", "chunks": "2026-01-01", "tables": "lake.a.t,lake.a.u"}, "one table"),
        ({"force": "why not", "chunks": "2026-01-01", "tables": "lake.a.?"}, "about one table"),
    ],
)
def test_a_force_is_about_chunks_by_name_of_one_table(asked: dict[str, str], said: str) -> None:
    with pytest.raises(UsageInvalid, match=said):
        RunRequest.read("r", NOW, {"tables": "lake.a.t", **asked}).require_forcible()


def test_what_becomes_of_large_deletes_is_one_of_two_words() -> None:
    assert RunRequest.read("r", NOW, {"deletes": "keep"}).deletes is Deletes.KEEP
    with pytest.raises(UsageInvalid, match="--deletes is not"):
        RunRequest.read("r", NOW, {"deletes": "forget"})


def test_commands_and_apps_describe_an_option_alike(capsys: pytest.CaptureFixture[str]) -> None:
    run(["run", "--help"])
    command = " ".join(capsys.readouterr().out.split())
    app = " ".join(app_parser("observe").format_help().split())
    for name in ("tables", "as_of", "dry_run", "any_hour", "parallelism"):
        assert OPTIONS[name].help in command, name
        assert OPTIONS[name].help in app, name
