"""The operator: what it refuses before Spark starts, and what it makes of an app's summary."""

import gc
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags.airflow_home import AirflowHome
from tests.dags.project import Project, batches

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.usefixtures("config"),
    pytest.mark.filterwarnings("ignore"),  # of Airflow's own making
]

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)


class Step:
    """Executes one step against the stand-in app `observe`."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.answer: dict[str, Any] | str = {}
        self.run_type = "manual"
        self.user = "ada"
        self.pushed: dict[str, Any] = {}
        self.states: dict[str, str] = {}

    def execute(self, *, params: dict[str, Any] | None = None, of: str = "", **options: Any) -> Any:
        from meltline.airflow.operators.spark_step import SparkStep
        from meltline.airflow.operators.step_tasks import BatchStep, PlanStep

        self.project.answer(observe=self.answer)
        app = self.project.folder / "spark_apps" / "observe.py"
        kind = {"": SparkStep, "plan": PlanStep, "batch": BatchStep}[of]
        step = kind(task_id="observe", application=app, **options)
        run = SimpleNamespace(
            run_id="r1", run_after=MIDNIGHT, start_date=MIDNIGHT, run_type=self.run_type,
            clear_number=0,
            triggering_user_name=self.user,
        )  # fmt: skip
        ti = SimpleNamespace(
            xcom_push=self.pushed.__setitem__,
            dag_id="d",
            run_id="r1",
            map_index=1,
            get_task_states=lambda *_, run_ids, **__: {run_ids[0]: self.states},
        )
        asked = {"tables": "", "as_of": None, "dry_run": False} | (params or {})
        context: Any = {"dag_run": run, "params": asked, "ti": ti}
        try:
            return step.execute(context)
        finally:
            gc.collect()  # the provider leaves its pipes open: let that be said here, not later

    @property
    def words(self) -> dict[str, str] | None:
        """What the app was told, if it was started at all."""
        return self.project.calls().get("observe")


@pytest.fixture
def step(project: Project, airflow: AirflowHome) -> Step:
    return Step(project)


def test_it_returns_the_summary_and_leaves_no_file(step: Step, config: Path) -> None:
    step.answer = {"notes": ["seen"]}
    assert step.execute()["notes"] == ["seen"]
    assert step.words is not None
    assert step.words["config"] == str(config)
    assert not Path(step.words["summary"]).parent.exists()


@pytest.mark.parametrize("answer", ["silent", "garbage", "list"])
def test_an_app_that_leaves_no_document_has_failed(step: Step, answer: str) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    step.answer = answer
    with pytest.raises(AirflowFailException, match="summary"):
        step.execute()


def test_an_app_that_crashes_may_be_tried_again(step: Step) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    step.answer = "crash"
    with pytest.raises(AirflowException) as crash:
        step.execute()
    assert not isinstance(crash.value, AirflowFailException)


def refusal(step: Step, match: str, **options: Any) -> None:
    """The step fails for good, and no app was started."""
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=match):
        step.execute(**options)
    assert step.words is None


def test_an_approval_without_a_reason_is_refused(step: Step) -> None:
    refusal(step, "reason", params={"approve_over_limit": True})


@pytest.mark.parametrize("kind", ["scheduled", "backfill"])
def test_an_approval_that_nobody_gave_by_hand_is_refused(step: Step, kind: str) -> None:
    step.run_type = kind
    refusal(step, "only a person", params={"approve_over_limit": True, "reason": "always"})


def test_a_day_to_come_is_refused(step: Step) -> None:
    refusal(step, "has not come", params={"as_of": "2999-01-01T00:00:00Z"})


def test_without_a_configuration_it_says_what_to_set(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MELTLINE_CONFIG")
    refusal(step, "MELTLINE_CONFIG.*meltline_config")


def test_the_configuration_may_be_named_by_an_airflow_variable(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MELTLINE_CONFIG")
    monkeypatch.setenv("AIRFLOW_VAR_MELTLINE_CONFIG", "/etc/melt line.yaml")
    step.execute()
    assert step.words is not None
    assert step.words["config"] == "/etc/melt line.yaml"


def test_a_missing_connection_does_not_mean_yarn(step: Step) -> None:
    refusal(step, "AIRFLOW_CONN_SPARK_ELSEWHERE", conn_id="spark_elsewhere")


def test_missing_jars_are_named_before_spark_starts(
    step: Step, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MELTLINE_JARS", str(tmp_path))
    refusal(step, "jar")


@pytest.mark.parametrize("made", [batches(3, 2), []], ids=["two batches", "nothing to do"])
def test_a_step_that_plans_hands_on_its_batches_and_keeps_its_summary(
    step: Step, made: list[dict[str, int]]
) -> None:
    step.answer = {"batches": made, "notes": ["seen"]}
    assert step.execute(of="plan") == made
    assert step.pushed["summary"]["notes"] == ["seen"]


def test_a_plan_that_is_only_shown_leaves_no_batch(step: Step) -> None:
    # The app leaves the key out.
    assert step.execute(of="plan", params={"dry_run": True}) == []
    assert step.words is not None
    assert "dry-run" in step.words


def test_a_step_on_a_batch_tells_its_app_which(step: Step) -> None:
    step.execute(of="batch", batch=batches(3, 2)[1], arguments=["--kind=purge"])
    assert step.words is not None
    assert (step.words["batch"], step.words["kind"]) == ("2", "purge")


@pytest.mark.parametrize("state", ["failed", "skipped", "upstream_failed", "running", None])
def test_a_step_on_a_batch_does_nothing_unless_its_own_gate_has_ended_well(
    step: Step, state: str | None
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    step.states = {"gate_0": "success"} | ({"gate_1": state} if state else {})
    with pytest.raises(AirflowFailException, match=f"batch 2: its gate gate is {state}"):
        step.execute(of="batch", batch=batches(3, 2)[1], gate="gate")
    assert step.words is None
    step.states["gate_1"] = "success"
    step.execute(of="batch", batch=batches(3, 2)[1], gate="gate")
    assert step.words is not None


@pytest.mark.parametrize(
    "options",
    [{"of": "batch", "batch": batches(0, 2)[0]}, {"params": {"dry_run": True}}],
    ids=["empty batch", "dry run"],
)
def test_it_is_skipped_when_there_is_nothing_to_do(step: Step, options: Any) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException):
        step.execute(**options)
    assert step.words is None


def test_only_the_step_that_may_passes_an_approval_on(step: Step) -> None:
    approved = {"approve_over_limit": True, "reason": "agreed"}
    step.execute(params=approved)
    assert step.words is not None
    assert "approve" not in step.words
    step.execute(params=approved, approvable=True)
    assert step.words["approve"] == "agreed"


def test_who_asked_and_why_stand_on_no_command_line(step: Step) -> None:
    approval = {"approve_over_limit": True, "reason": "the customer left"}
    step.execute(params=approval | {"once": "the customer's wish"}, approvable=True)
    assert step.words is not None
    assert (step.words["who"], step.words["approve"]) == ("ada", "the customer left")
    assert step.words["once"] == "the customer's wish"
    ((*line,),) = step.project.command_lines()
    assert any(word.startswith("--run-id=") for word in line)
    assert not [word for word in line if "ada" in word or "customer" in word]
    assert not Path(line[0].removeprefix("@")).exists()
