"""What each task of a demo's run said, where Airflow's UI looks for it.

`airflow dags test` runs all tasks in one process, and what they say goes to its console alone.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

_STARTED = re.compile(
    r"\[DAG TEST\] running task <TaskInstance: (\S+)\.(\S+) (\S+)(?: map_index=(\d+))? \["
)
_ENDED = "[DAG TEST] end task"
_LINE = re.compile(r"(\S+Z) \[(\w+) *\] (.*?) +\[([\w.]+)\]")
_SERVER = "airflow.api_fastapi."
"""The API answers from the same process here; elsewhere a task's log has none of it."""


def write_task_logs(console: Path, logs: Path) -> int:
    """Writes a log for each task of a run, as Airflow's own file handler does.

    Args:
        console: What `airflow dags test` has written.
        logs: The folder of Airflow's logs.

    Returns:
        How many tasks said something.
    """
    said: dict[Path, list[dict[str, str]]] = {}
    at: Path | None = None
    for line in console.read_text(encoding="utf-8").splitlines():
        if started := _STARTED.search(line):
            at = logs.joinpath(*_place(*started.groups()), "attempt=1.log")
        elif _ENDED in line:
            at = None
        elif at is not None:
            _take(line, said.setdefault(at, []))
    for path, records in said.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return len(said)


def _place(dag: str, task: str, run: str, map_index: str | None) -> Iterator[str]:
    """Airflow's default template of a log's name."""
    yield f"dag_id={dag}"
    yield f"run_id={run}"
    yield f"task_id={task}"
    if map_index is not None:
        yield f"map_index={map_index}"


def _take(line: str, records: list[dict[str, str]]) -> None:
    """Adds a line; one that begins no record goes on with the last one."""
    if parts := _LINE.match(line):
        timestamp, level, event, logger = parts.groups()
        if not logger.startswith(_SERVER):
            records.append(
                {"timestamp": timestamp, "level": level, "event": event, "logger": logger}
            )
    elif records:
        records[-1]["event"] += f"\n{line}"
