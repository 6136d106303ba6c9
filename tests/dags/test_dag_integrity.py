"""The DAG as Airflow loads it: light, documented, and nothing destructive but behind its gate."""

import copy
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.dags.airflow_home import DAG_ID, ROOT, AirflowHome
from tests.dags.project import STEPS, TASKS
from tests.unit.safety.test_arming import APPS

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

pytestmark = pytest.mark.airflow

APPS_FOLDER = ROOT / "spark_apps"
DAG_FILES = sorted((ROOT / "dags").glob("*.py"))
GATES = {"expire": "gate_expiration", "purge": "gate_purge"}
ASKING = {"find_approvals", "ask_for_approval"}
PLANS = {"expire": "plan_expiration", "purge": "plan_purge"}
HEAVY = ("pyspark", "pyiceberg", "great_expectations", "sqlalchemy_utils", "obstore", "pandas")

_LOAD = """
import json, runpy, sys
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, CronDataIntervalTimetable
before = set(sys.modules)
runpy.run_path(sys.argv[1])
print(json.dumps([sorted(set(sys.modules) - before), sorted(sys.modules)]))
"""


@pytest.fixture(scope="module")
def bag(airflow: AirflowHome) -> "DagBag":
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=ROOT / "dags")


def test_every_dag_and_every_task_and_parameter_says_what_it_is_for(bag: "DagBag") -> None:
    assert {Path(dag.fileloc).stem for dag in bag.dags.values()} == {p.stem for p in DAG_FILES}
    for dag in bag.dags.values():
        assert dag.doc_md and dag.description and "meltline" in dag.tags, dag.dag_id
        assert [task.task_id for task in dag.tasks if not task.doc_md] == []
        schemas = {name: dag.params.get_param(name).schema for name in dag.params}
        assert [name for name, said in schemas.items() if not said.get("description_md")] == []


@pytest.fixture(scope="module")
def dag(bag: "DagBag") -> Any:
    return bag.dags[DAG_ID]


@pytest.fixture(params=DAG_FILES, ids=lambda path: path.stem)
def dag_file(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_every_dag_file_loads(bag: "DagBag") -> None:
    assert bag.import_errors == {}
    assert DAG_ID in bag.dags


def test_a_dag_file_loads_without_engines(dag_file: Path, airflow: AirflowHome) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, str(dag_file)],
        env=os.environ | airflow.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    added, loaded = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in added if name.startswith("meltline.airflow.")]
    assert [name for name in loaded if name.partition(".")[0] in HEAVY] == []
    assert [name for name in added if name.startswith("meltline.adapters")] == []


def test_who_opens_the_file_of_the_lifecycle_reads_its_steps_in_their_order() -> None:
    text = (ROOT / "dags" / "meltline_lifecycle.py").read_text()
    (chained,) = re.findall(r"\n\n((?: +chain\(.+\)\n)+)", text)[:1]
    steps = ["observe", "archive", "plan_expiration", "gate_expiration", "expire", "plan_purge",
             "gate_purge", "purge", "report", "verdict"]  # fmt: skip
    assert list(dict.fromkeys(re.findall(r"[a-z_]+(?=[,)])", chained)))[: len(steps)] == steps


def test_the_chain_has_its_steps_in_the_order_that_is_safe(dag: Any) -> None:
    ordered = [task.task_id for task in dag.topological_sort()]
    assert [task for task in ordered if task in STEPS] == list(STEPS)
    assert sorted(ordered) == sorted(TASKS)
    before = {step: dag.task_dict[step].upstream_task_ids - ASKING for step in STEPS}
    # What works on a batch is told of it by the step that planned it.
    before |= {step: before[step] - {PLANS[step]} for step in GATES}
    assert before == {STEPS[0]: set()} | {
        step: {STEPS[number]} for number, step in enumerate(STEPS[1:])
    }


def test_a_question_is_asked_after_the_purges_and_holds_back_nothing(dag: Any) -> None:
    assert dag.task_dict["find_approvals"].upstream_task_ids == {"purge"}
    assert dag.task_dict["find_approvals"].trigger_rule == "none_failed"
    assert dag.task_dict["ask_for_approval"].downstream_task_ids == {"verdict"}
    assert "report" not in dag.task_dict["ask_for_approval"].get_flat_relative_ids(upstream=False)


@pytest.mark.parametrize("step", sorted(GATES))
def test_a_destructive_step_stands_behind_its_gate_alone(dag: Any, step: str) -> None:
    # PX-1
    task = dag.task_dict[step]
    assert task.upstream_task_ids == {GATES[step], PLANS[step]}
    assert dag.task_dict[GATES[step]].trigger_rule == "all_success"
    # It waits for the gates of all batches, and then goes by that of its own.
    assert task.trigger_rule == "all_done"
    assert task.partial_kwargs["gate"] == GATES[step]


@pytest.mark.parametrize("step", sorted(GATES))
def test_each_batch_has_a_gate_and_a_step_of_its_own(dag: Any, step: str) -> None:
    gate, task = dag.task_dict[GATES[step]], dag.task_dict[step]
    for mapped in (gate, task):
        assert [op.task_id for op in mapped.iter_mapped_dependencies()] == [PLANS[step]]
        assert "batch.number" in mapped.map_index_template


def test_the_graph_shows_each_gate_by_its_name(dag: Any) -> None:
    # A task group is shown folded.
    assert [group for group in dag.task_group.children if group not in dag.task_dict] == []


def test_side_by_side_run_two_batches_at_most_and_purges_one_by_one(dag: Any) -> None:
    limits = {task.task_id: task.max_active_tis_per_dagrun for task in dag.tasks}
    assert [limits[step] for step in ("gate_expiration", "expire", "gate_purge")] == [
        2,
        2,
        2,
    ]
    assert limits["purge"] == 1  # each of them deletes at the configured rate


def test_no_task_waits_for_a_pool_that_nobody_has_made(dag: Any) -> None:
    assert {task.pool for task in dag.tasks} == {"default_pool"}


def test_copies_to_cold_have_the_pool_that_is_named_and_no_other_step_does(
    airflow: AirflowHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    # AR-39
    monkeypatch.setenv("MELTLINE_COLD_POOL", "copies")
    found = runpy.run_path(str(ROOT / "dags" / "meltline_lifecycle.py"))
    tasks = found["dag"].tasks
    pools = {task.task_id: task.pool for task in tasks if task.pool != "default_pool"}
    assert pools == {"hand_off_to_cold": "copies"}


def test_nothing_before_a_destructive_step_runs_after_a_failure(dag: Any) -> None:
    before = {
        id for step in GATES for id in dag.task_dict[step].get_flat_relative_ids(upstream=True)
    }
    rules = {id: dag.task_dict[id].trigger_rule.value for id in before - GATES.keys()}
    assert set(rules.values()) <= {"all_success", "none_failed"}
    # Those that destroy wait for every gate, failed or not, and fail unless their own has passed.
    assert {dag.task_dict[step].partial_kwargs.get("gate") for step in GATES} == {*GATES.values()}
    assert {id for id, rule in rules.items() if rule == "none_failed"} == {
        "plan_expiration",
        "plan_purge",
    }


def test_only_the_last_task_runs_whatever_happened(dag: Any) -> None:
    rules = {task.task_id: task.trigger_rule.value for task in dag.tasks}
    runs_after_failures = [id for id, rule in rules.items() if rule == "all_done"]
    assert [id for id in runs_after_failures if id not in GATES] == ["verdict"]
    assert [task.task_id for task in dag.leaves] == ["verdict"]


def test_a_gate_is_not_tried_until_it_passes(dag: Any) -> None:
    retries = {task.task_id: task.retries for task in dag.tasks}
    assert {retries[gate] for gate in GATES.values()} == {0}
    assert retries["verdict"] == 0
    assert retries["expire"] == retries["purge"] == 1


def test_every_app_of_the_chain_is_there(dag: Any) -> None:
    apps = [Path(task.application) for task in dag.tasks if hasattr(task, "application")]
    assert {app.parent for app in apps} == {APPS_FOLDER}
    assert [app for app in apps if not app.is_file()] == []


def test_all_that_any_dag_runs_is_known_to_ask_or_to_destroy_nothing(bag: "DagBag") -> None:
    """Apps are each held to it in tests/unit/safety/test_arming.py; commands bring things back."""
    from meltline.airflow.approval.tasks import RecordAnswer, show_words
    from meltline.airflow.operators.command_step import CommandStep
    from meltline.airflow.requests.arguments import hold_words, restore_words

    asking = {"find_approvals", "ask_for_approval", "ask"}
    for found in bag.dags.values():
        for task in found.tasks:
            app = getattr(task, "application", None) or getattr(task, "partial_kwargs", {}).get(
                "application"
            )
            is_command = isinstance(task, CommandStep) and not isinstance(task, RecordAnswer)
            assert app or isinstance(task, CommandStep) or task.task_id in {*asking, "verdict"}, (
                found.dag_id,
                task.task_id,
            )
            assert app is None or Path(app).stem in APPS
            words = getattr(task, "words", None)
            known = (hold_words, restore_words, show_words)
            assert not is_command or getattr(words, "func", words) in known


def test_whoever_runs_an_app_that_destroys_can_be_asked_for_a_word_for_once(
    bag: "DagBag",
) -> None:
    asking = {dag_id for dag_id, found in bag.dags.items() if "once" in found.params}
    assert asking == {DAG_ID, "meltline_orphan_sweep", "meltline_chunks"}


@pytest.mark.parametrize("dag_id", [DAG_ID, "meltline_chunks"])
def test_the_schedule_is_daily_in_utc_with_whole_days(bag: "DagBag", dag_id: str) -> None:
    from airflow.sdk import CronDataIntervalTimetable

    dag = bag.dags[dag_id]
    assert isinstance(dag.timetable, CronDataIntervalTimetable)
    assert dag.timetable.expression == "0 0 * * *"
    assert str(dag.timetable.timezone) in ("UTC", "Timezone('UTC')")
    assert dag.catchup is False


def validated(dag: Any, **conf: Any) -> dict[str, Any]:
    params = copy.deepcopy(dag.params)
    params.update(conf)
    checked: dict[str, Any] = params.validate()
    return checked


@pytest.mark.parametrize(
    "conf",
    [
        {"tables": 7},
        {"tables": "lake.air.*\nlake.*"},
        {"as_of": "yesterday"},
        {"as_of": "2026-01-05"},
        {"as_of": "2026-13-01T00:00:00Z"},
        {"as_of": "2026-01-05T00:00:00"},
        {"as_of": 20260105},
        {"dry_run": "yes"},
        {"dry_run": 1},
        {"any_hour": "now"},
        {"approve_over_limit": "true"},
        {"reason": 5},
        {"reason": "x" * 501},
        {"once": True},
        {"once": "two\nlines"},
    ],
    ids=lambda conf: json.dumps(conf)[:40],
)
def test_a_bad_parameter_is_rejected(dag: Any, conf: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        validated(dag, **conf)


def test_good_parameters_are_taken(dag: Any) -> None:
    conf = {
        "tables": "lake.air.*,lake.*.t[1]",
        "as_of": "2026-01-05T00:00:00+01:00",
        "dry_run": True,
        "any_hour": True,
        "parallelism": 4,
        "approve_over_limit": True,
        "reason": "agreed",
        "once": "the disk is full",
    }
    assert validated(dag, **conf) == conf


def test_without_parameters_a_run_is_for_real_for_all_tables_and_approves_nothing(
    dag: Any,
) -> None:
    assert validated(dag) == {
        "tables": None,
        "as_of": None,
        "dry_run": False,
        "any_hour": False,
        "parallelism": None,
        "approve_over_limit": False,
        "reason": None,
        "once": None,
    }


def test_the_plugin_registers_its_macros(airflow: AirflowHome) -> None:
    import airflow.plugins_manager as plugins

    loaded = [plugin for plugin in plugins._get_plugins()[0] if plugin.name == "meltline"]
    # From plugins/ and from the package's entry point, and once.
    assert len(loaded) == 1 and (ROOT / "plugins" / "meltline_plugin.py").is_file()
    found = {plugin.name: plugin for plugin in loaded}
    assert [macro.__name__ for macro in found["meltline"].macros] == [
        "format_instant",
        "format_size",
    ]
    assert plugins.get_import_errors() == {}
