"""The DAGs over chunks as Airflow runs them, with stand-ins for the apps."""

import copy
import gc
import runpy
from datetime import timedelta
from typing import Any

import pytest

from tests.dags.airflow_home import ROOT, AirflowHome
from tests.dags.project import CHUNK_STEPS, Project, batches, plan, table

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.usefixtures("config"),
    pytest.mark.filterwarnings("ignore"),  # of Airflow's own making
]

CHUNKS, REPLICATE = "meltline_chunks", "meltline_replicate"
T, ROLLUP = "lake.air.t", "lake.air._rollup_hourly"
WAITING = [
    {"table": T, "chunk": f"2026-01-0{day}", "reason": "BEHIND", "detail": ""} for day in (4, 5)
]
COPIED = {"tables": [table(T, commits_followed=2, rows_copied=40)]}
PLANNED = {"plans": [plan(T, "drop_chunks", "planned")], "batches": batches(1)}
DROPPED = {
    "plans": [plan(T, "drop_chunks", "applied")],
    "tables": [table(T, chunks_dropped=3, bytes_dropped=2048)],
}
FULL = {
    "replicate_to_cold": COPIED,
    "refresh_rollups": {"tables": [table(ROLLUP, buckets_refreshed=5)]},
    "evaluate_chunks": {"tables": [table(T, chunks_tiered=1)], "deferred": WAITING},
    "plan_drops": PLANNED,
    "gate_drops": {"plans": [plan(T, "drop_chunks", "passed") | {"gate": "passed"}]},
    "drop_chunks": DROPPED,
}
FORCED = {"tables": T, "chunks": "2026-01-05", "force": "they are wrong"}


def dag_of(airflow: AirflowHome, dag_id: str) -> Any:
    """Loaded anew for each run, as Airflow does: a run's parameters stay in the object."""
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(dag_folder=airflow.project / "dags").dags[dag_id]
    for task in dag.tasks:
        task.retry_delay = timedelta(0)
    return dag


def run_of(dag: Any, project: Project, answers: dict[str, Any], **conf: Any) -> Any:
    project.answer(**answers)
    ended = dag.test(logical_date=None, run_conf=conf)
    gc.collect()  # the provider leaves its pipes open: let that be said here, not later
    return ended


def outcome(ended: Any) -> tuple[str, dict[str, str]]:
    states = {ti.task_id: str(ti.state) for ti in ended.get_task_instances()}
    return str(ended.state.value), states


def recap_of(ended: Any) -> list[str]:
    """What the asset event of a run that went well says that it did."""
    from airflow import settings
    from airflow.models.asset import AssetEvent
    from sqlalchemy import select

    with settings.Session() as session:
        chosen = select(AssetEvent).where(
            AssetEvent.source_run_id == ended.run_id, AssetEvent.source_dag_id == ended.dag_id
        )
        (event,) = session.scalars(chosen)
        recap: list[str] = event.extra["recap"]
        return recap


# --- how they are made -----------------------------------------------------------------------


def test_a_run_over_chunks_copies_first_and_drops_behind_its_gate_alone(
    airflow: AirflowHome,
) -> None:
    dag = dag_of(airflow, CHUNKS)
    assert [task.task_id for task in dag.topological_sort()] == list(CHUNK_STEPS)
    before = {task.task_id: task.upstream_task_ids for task in dag.tasks}
    assert before["drop_chunks"] == {"gate_drops", "plan_drops"}
    drop, gate = dag.task_dict["drop_chunks"], dag.task_dict["gate_drops"]
    assert (drop.partial_kwargs["gate"], drop.trigger_rule) == ("gate_drops", "all_done")
    assert (gate.trigger_rule, gate.retries) == ("all_success", 0)
    rules = {task.task_id: task.trigger_rule.value for task in dag.tasks}
    assert {id for id, rule in rules.items() if rule == "all_done"} == {"drop_chunks", "verdict"}
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert {task.pool for task in dag.tasks} == {"default_pool"}


def test_replication_runs_every_quarter_of_an_hour_or_as_a_site_says(
    airflow: AirflowHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = dag_of(airflow, REPLICATE)
    steps = [task.task_id for task in dag.topological_sort()]
    assert steps == ["replicate_to_cold", "refresh_rollups", "verdict"]
    assert dag.task_dict["refresh_rollups"].trigger_rule == "all_done"
    assert dag.timetable.expression == "*/15 * * * *"
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    monkeypatch.setenv("MELTLINE_REPLICATE_SCHEDULE", "*/5 * * * *")
    loaded = runpy.run_path(str(ROOT / "dags" / f"{REPLICATE}.py"))
    assert loaded["dag"].timetable.expression == "*/5 * * * *"


@pytest.mark.parametrize(
    "dag_id, conf",
    [
        (CHUNKS, {"force": True}),
        (CHUNKS, {"force": "two\nlines"}),
        (CHUNKS, {"chunks": ["2026-01-05"]}),
        (CHUNKS, {"as_of": "yesterday"}),
        (REPLICATE, {"deletes": "forget"}),
    ],
    ids=str,
)
def test_a_bad_parameter_is_rejected(
    airflow: AirflowHome, dag_id: str, conf: dict[str, Any]
) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = copy.deepcopy(dag_of(airflow, dag_id).params)
    with pytest.raises(ParamValidationError):
        params.update(conf)
        params.validate()


def test_good_parameters_are_taken(airflow: AirflowHome) -> None:
    params = copy.deepcopy(dag_of(airflow, CHUNKS).params)
    params.update(FORCED)
    assert params.validate() == {**FORCED, "as_of": None, "dry_run": False, "once": None}
    params = copy.deepcopy(dag_of(airflow, REPLICATE).params)
    assert params.validate() == {"tables": None, "deletes": None}
    params.update({"deletes": "keep"})
    assert params.validate()["deletes"] == "keep"


# --- how they run ----------------------------------------------------------------------------


def test_with_chunks_to_drop_every_app_runs_in_order_and_verdict_says_what_waits(
    airflow: AirflowHome, project: Project
) -> None:
    ended = run_of(dag_of(airflow, CHUNKS), project, FULL, **FORCED)
    assert outcome(ended) == ("success", dict.fromkeys(CHUNK_STEPS, "success"))
    calls = project.calls()
    assert list(calls) == list(CHUNK_STEPS[:-1])
    for step, words in calls.items():
        assert words["run-id"] == f"chunks__{ended.run_id}", step
        assert (words["chunks"], words["force"]) == ("2026-01-05", "they are wrong")
    assert calls["gate_drops"]["kind"] == "drop_chunks" and calls["drop_chunks"]["batch"] == "1"
    assert not any("wrong" in word for line in project.command_lines() for word in line)
    assert recap_of(ended) == [
        f"2 commits of `{T}` followed by cold; 40 rows of `{T}` copied to cold; "
        f"5 buckets of `{ROLLUP}` aggregated anew; "
        f"1 chunk of `{T}` proved to be in cold; 3 chunks, 2.0 KiB of `{T}` dropped from hot; "
        "2 chunks wait: 2 BEHIND",
        f"`{ROLLUP}`: 5 buckets aggregated anew",
        f"`{T}`: 2 commits followed by cold; 40 rows copied to cold; 1 chunk proved to be in cold; "
        "3 chunks, 2.0 KiB dropped from hot",
    ]


def test_a_dry_run_copies_and_judges_nothing(airflow: AirflowHome, project: Project) -> None:
    state, states = outcome(run_of(dag_of(airflow, CHUNKS), project, FULL, dry_run=True))
    assert state == "success" and list(project.calls()) == ["evaluate_chunks", "plan_drops"]
    assert {step for step, how in states.items() if how == "skipped"} == {
        "replicate_to_cold",
        "refresh_rollups",
        "gate_drops",
        "drop_chunks",
        "report_chunks",
    }


def test_a_gate_that_crashes_has_not_passed(airflow: AirflowHome, project: Project) -> None:
    answers = {**FULL, "gate_drops": "crash"}
    state, states = outcome(run_of(dag_of(airflow, CHUNKS), project, answers))
    assert state == "failed" and "drop_chunks" not in project.calls()
    assert (states["drop_chunks"], states["report_chunks"]) == ("failed", "upstream_failed")


def test_a_force_that_names_no_chunks_starts_no_app_and_is_not_tried_again(
    airflow: AirflowHome, project: Project
) -> None:
    dag = dag_of(airflow, CHUNKS)
    state, states = outcome(run_of(dag, project, FULL, tables=T, force="they are wrong"))
    assert state == "failed" and not project.calls()
    assert states["replicate_to_cold"] == "failed"


def test_replication_that_finds_nothing_ends_well_and_a_copy_that_has_stopped_is_named(
    airflow: AirflowHome, project: Project
) -> None:
    ended = run_of(dag_of(airflow, REPLICATE), project, {}, deletes="mirror")
    assert outcome(ended)[0] == "success" and recap_of(ended) == ["nothing was done"]
    words = project.calls()["replicate_to_cold"]
    assert words["deletes"] == "mirror" and "last" not in words
    assert "last" in project.calls()["refresh_rollups"]
    assert words["run-id"] == f"replicate__{ended.run_id}"
    stopped = {"tables": [table(T, skipped="hot and cold have parted")]}
    ended = run_of(dag_of(airflow, REPLICATE), project, {"replicate_to_cold": stopped})
    assert outcome(ended) == (
        "failed",
        {
            "replicate_to_cold": "success",
            "refresh_rollups": "success",
            "verdict": "failed",
        },
    )
