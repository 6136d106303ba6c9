"""A command about Airflow: airflow init."""

from pathlib import Path
from typing import Annotated

import typer

from meltline.cli.options import AsJson
from meltline.cli.output import answer
from meltline.domain.errors import UsageInvalid

_DAGS = {
    "approval": "Asks a person about one purge above the limit, and carries it out when they "
    "approve.",
    "chunks": "Partitions by age: what is proved to be in cold leaves hot, behind a gate.",
    "holds": "Holds, by a form: nothing of what is held departs or is purged.",
    "lifecycle": "The daily lifecycle: what expires leaves its table, waits in failsafe, is "
    "deleted.",
    "orphan_sweep": "The weekly sweep: what no commit has named, and is old, begins to wait in "
    "failsafe.",
    "replicate": "Replication to cold, every few minutes: synced tables have there what main has "
    "here.",
    "restore": "Undrop, rollback, recover and clone, a form for each: the past comes back.",
}

_NEXT = (
    "Set for the scheduler, the DAG processor and the workers:",
    "  MELTLINE_CONFIG          the path of meltline.yaml; or the Airflow variable meltline_config",
    "  the connection spark_default, such as",
    """    AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[*]"}'""",
    "  MELTLINE_JARS            where `meltline jars fetch` has put the jars, if not in the cache",
    "And where you want it so:",
    "  MELTLINE_PYTHON          the Python of another environment, which runs Meltline and Spark",
    "  MELTLINE_COLD_POOL       a pool for copies to cold, which you have made",
    "  the connection meltline_airflow_api, with which runs write their notes",
)


def airflow_init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Airflow's DAGs folder")],
    as_json: AsJson = False,
) -> int:
    """Write a file of three lines for each DAG, and say what to set; what is there stays."""
    texts = {f"meltline_{name}.py": dag_file(name) for name in _DAGS}
    _refuse_others(folder, texts)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    document = {"folder": str(folder), "files": sorted(texts), "next": list(_NEXT)}
    return answer(document, [f"{len(texts)} DAG files are in {folder}.", *_NEXT], as_json=as_json)


def dag_file(name: str) -> str:
    """The whole text of a DAG file; that of `restore` makes four DAGs."""
    made = "undrop, rollback, recover, clone" if name == "restore" else "dag"
    function = "restore_dags" if name == "restore" else f"{name}_dag"
    lines = (f'"""{_DAGS[name]}"""', f"from meltline.airflow import {function}")
    return "\n\n".join((*lines, f"{made} = {function}()\n"))


def _refuse_others(folder: Path, texts: dict[str, str]) -> None:
    """A file that says something else is somebody's: nothing is written then."""
    changed = [
        name
        for name, text in texts.items()
        if (folder / name).exists() and (folder / name).read_text(encoding="utf-8") != text
    ]
    if changed:
        raise UsageInvalid(
            "DAG files of that name say something else",
            object=str(folder),
            expected="none, or files as this command writes them",
            found=", ".join(sorted(changed)),
            next="move them away, or keep them: `from meltline.airflow import …` works in any file",
        )
