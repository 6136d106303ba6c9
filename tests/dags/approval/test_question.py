"""What a person is asked in Airflow about one large purge, and what becomes of their answer."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from meltline.cli.run.step import app_parser
from tests.dags.airflow_home import AirflowHome
from tests.dags.project import PLAN_DIGEST

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.filterwarnings("ignore"),  # of Airflow's own making
]

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
ANN = {"id": "7", "name": "ann"}
ANSWER = {
    "chosen_options": ["Approve"],
    "params_input": {"reason": "-- agreed"},
    "responded_by_user": ANN,
    "responded_at": AT,
}
QUESTION = {
    "id": "p1",
    "state": "passed",
    "note": "",
    "digest": PLAN_DIGEST,
    "table": "lake.air.flights",
    "files": 2050,
    "bytes": 3 * 1024**4,
    "until": "2026-11-23T00:00:00Z",
    "seconds": 3600,
    "wait_seconds": 259_200,
    "oldest": [{"path": "s3://b/a|b", "bytes": 5, "due_at": "2026-11-01T00:00:00Z"}],
    "largest": [{"path": "s3://b/`c", "bytes": 1024**4, "due_at": "2026-11-02T00:00:00Z"}],
    "changes": None,
}


@pytest.fixture(scope="module")
def dag(airflow: AirflowHome) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=airflow.project / "dags")
    assert bag.import_errors == {}
    return bag.dags["meltline_approval"]


def test_it_is_started_by_others_at_once_and_keeps_no_other_question_waiting(dag: Any) -> None:
    assert dag.schedule is None and dag.is_paused_upon_creation is False
    assert dag.max_active_runs >= 1000 and dag.dagrun_timeout is None


def test_a_question_is_asked_once_and_waits_for_a_person_and_not_for_a_default(dag: Any) -> None:
    ask = dag.task_dict["ask"]
    assert (ask.retries, ask.execution_timeout, ask.defaults) == (0, None, None)
    assert ask.response_timeout == timedelta(days=3) and ask.options == ["Approve", "Reject"]


def test_what_is_deleted_stands_behind_answer_and_gate_and_what_tells_of_it_runs_always(
    dag: Any,
) -> None:
    rules = {task.task_id: task.trigger_rule.value for task in dag.tasks}
    before = dag.task_dict["purge"].get_flat_relative_ids(upstream=True)
    assert before == {"describe", "ask", "record_answer", "gate_purge"}
    assert {rules[task] for task in before | {"purge"}} == {"all_success"}
    assert [task for task, rule in rules.items() if rule == "all_done"] == ["report", "verdict"]


def test_the_question_names_table_files_bytes_digest_and_the_way_to_all_of_it(
    airflow: AirflowHome,
) -> None:
    from meltline.airflow.approval.tasks import body, headline

    assert headline(QUESTION) == "Delete 2,050 files, 3.0 TiB of lake.air.flights for good?"
    text = body(QUESTION, "scheduled__2026-11-20T00:00:00+00:00")
    for part in (PLAN_DIGEST, "`p1`", "3.0 TiB", "`s3://b/a\\|b`", "`` s3://b/`c ``", "1.0 TiB"):
        assert part in text
    assert "/dags/meltline_lifecycle/runs/scheduled__2026-11-20T00%3A00%3A00%2B00%3A00" in text
    assert "asked about" not in text.split("**Approve**")[0]


def test_a_question_asked_anew_says_what_has_changed(airflow: AirflowHome) -> None:
    from meltline.airflow.approval.tasks import body

    changes = {"instead_of": "p0", "files_came": 1, "bytes_came": 1024, "files_went": 2,
               "bytes_went": 5}  # fmt: skip
    text = body({**QUESTION, "changes": changes})
    assert "`p0`" in text and "1 file, 1.0 KiB, came; 2 files, 5 B, went" in text


def asking(dag: Any, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Any:
    """The task as it would put the question; what Airflow would store of it is in `asked`."""
    from airflow.providers.standard.operators import hitl

    task = dag.task_dict["ask"]
    task.question = {**QUESTION, **changes}
    asked: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **detail: asked.update(detail))
    return task, asked


@pytest.mark.parametrize(("seconds", "waits"), [(3600, 3600), (0, 259_200), (-5, 259_200)])
def test_it_waits_as_long_as_configured_and_anew_when_it_is_cleared_later(
    dag: Any, monkeypatch: pytest.MonkeyPatch, seconds: int, waits: int
) -> None:
    from airflow.sdk.exceptions import TaskAwaitingInput

    task, asked = asking(dag, monkeypatch, seconds=seconds)
    context = {"params": {"found_by": None}, "task_instance": SimpleNamespace(id="ti")}
    with pytest.raises(TaskAwaitingInput) as parked:
        task.execute(context)
    assert parked.value.timeout == timedelta(seconds=waits)
    assert "2,050 files" in asked["subject"] and asked["defaults"] is None
    assert asked["assigned_users"] is None and "reason" in asked["params"]


def test_a_form_as_it_opens_lists_what_waits_and_asks_nobody(dag: Any) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    from meltline.airflow.approval.tasks import show_words

    assert show_words({"plan": None, "instead_of": None}) == ["approval", "list"]
    task = dag.task_dict["ask"]
    for waiting, word in (([], "none"), ([{"id": "p1"}, {"id": "p2"}], "p1, p2")):
        task.question = {"approvals": waiting}
        with pytest.raises(AirflowSkipException, match=f"waiting: {word}"):
            task.execute({"params": {}})


def test_about_a_plan_that_is_over_nobody_is_asked(
    dag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    task, asked = asking(dag, monkeypatch, state="stale", note="another run has it")
    with pytest.raises(AirflowSkipException, match="another run has it"):
        task.execute({"params": {}})
    assert asked == {}


def test_an_answer_that_nobody_gave_is_none_and_no_answer_is_none(dag: Any) -> None:
    from airflow.providers.standard.exceptions import HITLTimeoutError
    from airflow.sdk.exceptions import AirflowFailException

    ask = dag.task_dict["ask"]
    nobody = {**ANSWER, "responded_by_user": None}
    with pytest.raises(AirflowFailException, match="nobody"):
        ask.execute_complete({}, nobody)
    with pytest.raises(HITLTimeoutError):
        ask.execute_complete({}, {"error": "too late", "error_type": "timeout"})
    record = dag.task_dict["record_answer"]
    record.answer = nobody
    with pytest.raises(AirflowFailException, match="nobody"):
        record.user({})


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (
            "Approve",
            ["approval", "give", f"--digest={PLAN_DIGEST}", "--reason=-- agreed",
             "--answered-at=2026-11-20T12:00:00Z", "--", "p1"],
        ),
        (
            "Reject",
            ["approval", "reject", f"--digest={PLAN_DIGEST}", "--reason=-- agreed", "--", "p1"],
        ),
    ],
)  # fmt: skip
def test_both_answers_are_recorded_by_the_name_of_who_gave_them(
    dag: Any, chosen: str, words: list[str]
) -> None:
    answer = dag.task_dict["ask"].execute_complete({}, {**ANSWER, "chosen_options": [chosen]})
    record = dag.task_dict["record_answer"]
    record.answer = answer
    run = SimpleNamespace(dag_id="meltline_approval", run_id="approval__p1")
    context = {"params": {"plan": "p1", "digest": PLAN_DIGEST}, "dag_run": run}
    assert record.command(context) == words
    assert record.user(context) == "ann"


def test_an_answer_without_a_reason_names_the_run_in_which_it_was_given(dag: Any) -> None:
    record = dag.task_dict["record_answer"]
    record.answer = {**ANSWER, "params_input": {}}
    run = SimpleNamespace(dag_id="meltline_approval", run_id="approval__p1")
    context = {"params": {"plan": "p1", "digest": PLAN_DIGEST}, "dag_run": run}
    assert "--reason=answered in Airflow, meltline_approval, approval__p1" in record.command(
        context
    )


@pytest.mark.parametrize("step", ["gate_purge", "purge"])
def test_after_a_rejection_no_step_of_the_plan_runs(dag: Any, step: str) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    task = dag.task_dict[step]
    task.answer = {"plan": "p1", "approved": False}
    with pytest.raises(AirflowSkipException, match="rejected"):
        task.execute({})


@pytest.mark.parametrize(
    "judged",
    [
        [],
        [{"id": "p1", "gate": "refused"}],
        [{"id": "p1", "gate": "none"}, {"id": "p2", "gate": "passed"}],
    ],
)
def test_what_its_gate_has_not_passed_again_is_not_purged(
    dag: Any, judged: list[dict[str, str]]
) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    task = dag.task_dict["purge"]
    task.answer, task.judged = {"plan": "p1", "approved": True}, {"plans": judged}
    with pytest.raises(AirflowSkipException, match="not passed"):
        task.execute({})
    options = app_parser("purge").parse_args(["--run-id=r", "--summary=s", *task.words()])
    assert (options.plan, options.any_hour) == ("p1", True)
