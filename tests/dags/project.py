"""A project folder like the checkout, in which a stand-in for Spark answers as a test wants.

The DAG, its operator and Airflow are the real ones; only `spark-submit` is a script that runs a
stand-in app: it notes its command line and leaves the summary that it was told to leave.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.dags.airflow_home import ROOT

STEPS = (
    "observe",
    "hand_off_to_cold",
    "plan_expiration",
    "gate_expiration",
    "expire",
    "plan_purge",
    "gate_purge",
    "purge",
    "report",
    "verdict",
)

CHUNK_STEPS = (
    "replicate_to_cold",
    "refresh_rollups",
    "evaluate_chunks",
    "plan_drops",
    "gate_drops",
    "drop_chunks",
    "report_chunks",
    "verdict",
)

TASKS = (*STEPS[:-1], "find_approvals", "ask_for_approval", STEPS[-1])
"""Those, and what asks a person about purges above the limit."""

# By way of a shell: a first line that names an interpreter cannot hold a path with spaces.
_SUBMIT = """#!/bin/sh
exec "{python}" -c '
import os, sys
at = next(i for i, word in enumerate(sys.argv) if word.endswith(".py") and i)
os.execv(sys.executable, [sys.executable, *sys.argv[at:]])
' "$@"
"""

_APP = """
import json, os, sys
from pathlib import Path
folder = Path(__file__).parent.parent
line, told = sys.argv[1:], sys.argv[1:]
if told[0].startswith("@"):
    told = json.loads(Path(told[0][1:]).read_text()) + told[1:]
words = dict(word.removeprefix("--").partition("=")[::2] for word in told)
key = Path(__file__).stem
if key == "gate":
    gates = {"expire": "gate_expiration", "purge": "gate_purge", "drop_chunks": "gate_drops"}
    key = gates[words["kind"]]
with (folder / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({"step": key, "words": words, "line": line, "pid": os.getpid()}) + "\\n")
answers = json.loads((folder / "answers.json").read_text())
answer = answers.get(f"{key} {words.get('batch')}", answers.get(key, {}))
if answer == "crash":
    sys.exit(1)
if answer in ("garbage", "list"):
    Path(words["summary"]).write_text({"garbage": "{", "list": "[]"}[answer])
elif answer != "silent":
    empty = {"run_id": words["run-id"], "as_of": words["as-of"], "plans": [], "tables": [],
             "notes": []}
    Path(words["summary"]).write_text(json.dumps(empty | answer))
"""

PLAN_DIGEST = "sha256:" + "0" * 64

_JARS = ("iceberg-spark-runtime-0", "spark-avro_0", "sqlite-jdbc-0", "postgresql-0")


def plan(table: str, kind: str, state: str) -> dict[str, str]:
    """A plan's line in a summary."""
    return {
        "id": f"{kind}-{table}",
        "kind": kind,
        "table": table,
        "digest": "sha256:0",
        "gate": "none",
        "state": state,
    }


def batches(*sizes: int) -> list[dict[str, int]]:
    """What a plan step leaves to be done: so many plans in each batch."""
    return [
        {"number": number, "of": len(sizes), "plans": plans, "files": 7 * plans}
        for number, plans in enumerate(sizes, start=1)
    ]


def table(name: str, **changes: Any) -> dict[str, Any]:
    """A table's line in a summary."""
    counts = (
        "snapshots_expired", "files_departed", "bytes_departed", "files_purged", "bytes_purged",
    )  # fmt: skip
    reasons = ("skipped", "refused", "failed")
    return {"table": name, **dict.fromkeys(counts, 0), **dict.fromkeys(reasons), **changes}


@dataclass(frozen=True)
class Project:
    """The folder, what its apps answer, and what they were asked."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> "Project":
        """The DAGs of the checkout, told where its stand-ins are; makes everything else up."""
        for name in ("dags", "spark_apps", "bin", "jars"):
            (folder / name).mkdir()
        told = f"_dag(apps=Path({str(folder / 'spark_apps')!r}))"
        for dag in (ROOT / "dags").glob("*.py"):
            text = dag.read_text()
            if "apps: Path" in text:  # the others run commands
                text = text.replace("_dag()\n", f"{told}\n")
            (folder / "dags" / dag.name).write_text(text)
        for app in (*STEPS, *CHUNK_STEPS, "gate", "sweep"):
            (folder / "spark_apps" / f"{app}.py").write_text(_APP)
        submit = folder / "bin" / "spark-submit"
        submit.write_text(_SUBMIT.replace("{python}", sys.executable))
        submit.chmod(0o755)
        for jar in _JARS:
            (folder / "jars" / f"{jar}.jar").touch()
        return cls(folder)

    @property
    def environment(self) -> dict[str, str]:
        """What leads Airflow's tasks to the stand-ins."""
        return {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "MELTLINE_JARS": str(self.folder / "jars"),
            "MELTLINE_DRIVER": "step",  # the stand-in is what is submitted
        }

    def answer(self, **answers: Mapping[str, Any] | str) -> None:
        """Sets what each step's summary adds to an empty one, or what it does instead.

        `step 2` is for the step's batch 2 alone.
        """
        (self.folder / "answers.json").write_text(json.dumps(answers))
        (self.folder / "calls.jsonl").write_text("")

    def calls(self) -> dict[str, dict[str, str]]:
        """The words that each app was told, in order, by step."""
        return dict(self.every_call())

    def every_call(self) -> list[tuple[str, dict[str, str]]]:
        """The same, where a step was started for several batches."""
        lines = (self.folder / "calls.jsonl").read_text().splitlines()
        return [(call["step"], call["words"]) for call in map(json.loads, lines)]

    def command_lines(self) -> list[list[str]]:
        """What stood on the command line of each app, for every user of the machine to see."""
        lines = (self.folder / "calls.jsonl").read_text().splitlines()
        return [call["line"] for call in map(json.loads, lines)]
