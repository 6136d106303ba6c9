"""Airflow's UI finds what the tasks of a demo's run said."""

import json
from pathlib import Path

from demo.task_logs import write_task_logs

RUN = "manual__2026-11-23T15:19:42.379047+00:00"
CONSOLE = f"""\
2026-11-23T15:19:41.8Z [info     ] DAG bundles loaded: dags-folder [airflow.dag_processing] loc=manager.py:304
2026-11-23T15:20:06.0Z [info     ] [DAG TEST] starting task_id=gate map_index=0 [airflow.sdk.definitions.dag] loc=dag.py:1501
2026-11-23T15:20:06.1Z [info     ] [DAG TEST] running task <TaskInstance: d.gate {RUN} map_index=0 [TaskInstanceState.SCHEDULED] ti_id=01> [airflow.sdk.definitions.dag] loc=dag.py:1504
2026-11-23T15:20:06.2Z [info     ] Task started                   [airflow.api_fastapi.execution_api.routes.task_instances] loc=x.py:1
2026-11-23T15:20:06.3Z [warning  ] 3 plans passed [meltline.orchestration.step] loc=step.py:1
and a line that goes on
2026-11-23T15:20:06.4Z [info     ] [DAG TEST] end task task_id=gate map_index=0 [airflow.sdk.definitions.dag] loc=dag.py:1563
2026-11-23T15:20:11.0Z [info     ] [DAG TEST] running task <TaskInstance: d.verdict {RUN} [TaskInstanceState.SCHEDULED] ti_id=02> [airflow.sdk.definitions.dag] loc=dag.py:1504
2026-11-23T15:20:11.1Z [info     ] 392 files deleted [meltline.airflow.dags.verdict] loc=verdict.py:134
2026-11-23T15:20:11.2Z [info     ] [DAG TEST] end task task_id=verdict map_index=-1 [airflow.sdk.definitions.dag] loc=dag.py:1563
2026-11-23T15:20:11.3Z [info     ] Marking run successful [airflow.models.dagrun.DagRun] loc=dagrun.py:1
"""  # noqa: E501 - as Airflow writes it


def test_each_task_has_the_log_of_what_it_said_and_nothing_of_others(tmp_path: Path) -> None:
    console = tmp_path / "run.log"
    console.write_text(CONSOLE)
    assert write_task_logs(console, tmp_path / "logs") == 2
    run = tmp_path / "logs" / "dag_id=d" / f"run_id={RUN}"
    gate = run / "task_id=gate" / "map_index=0" / "attempt=1.log"
    (record,) = map(json.loads, gate.read_text().splitlines())
    assert record == {
        "timestamp": "2026-11-23T15:20:06.3Z",
        "level": "warning",
        "event": "3 plans passed\nand a line that goes on",
        "logger": "meltline.orchestration.step",
    }
    verdict = (run / "task_id=verdict" / "attempt=1.log").read_text()
    assert "392 files deleted" in verdict and "Marking run" not in verdict
