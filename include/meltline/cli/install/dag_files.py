"""The airflow init command: writes Meltline's DAG files into a folder.

`commands` loads it by name.
"""

from pathlib import Path
from typing import Annotated

import typer

from meltline.bundled import bundled
from meltline.cli.options import AsJson
from meltline.cli.output import answer
from meltline.domain.errors import UsageInvalid

_PREFIX = "meltline_"

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
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="this DAG file alone, such as lifecycle"),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Write the DAG files, and print the settings; existing files stay."""
    texts = _chosen(only or [])
    _refuse_others(folder, texts)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    document = {"folder": str(folder), "files": sorted(texts), "next": list(_NEXT)}
    count = f"{len(texts)} DAG {'file is' if len(texts) == 1 else 'files are'} in {folder}."
    return answer(document, [count, *_NEXT], as_json=as_json)


def _chosen(only: list[str]) -> dict[str, str]:
    """Returns the DAG files by name, or the requested ones."""
    files = {file.stem.removeprefix(_PREFIX): file for file in bundled("dags").glob("*.py")}
    if unknown := [name for name in only if name not in files]:
        raise UsageInvalid(
            "there is no DAG file of that name",
            object=unknown[0],
            expected=f"one of {', '.join(sorted(files))}",
            found=unknown[0],
            next="`meltline airflow init DIR` without --only writes them all",
        )
    chosen = [file for name, file in files.items() if name in only or not only]
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(chosen)}


def _refuse_others(folder: Path, texts: dict[str, str]) -> None:
    """Refuses to overwrite a changed file: nothing is written then."""
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
            next="move them away, run this again, and repeat in the new files what you had changed",
        )
