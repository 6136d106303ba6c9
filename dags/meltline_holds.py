"""Holds, by a form: nothing of what is held departs or is purged."""

from typing import Any

from airflow.sdk import DAG, Param

from meltline.airflow.dags.definition import dag_of_a_command
from meltline.airflow.operators.command_step import CommandStep
from meltline.airflow.requests.arguments import hold_words
from meltline.app.run_request import INSTANT

DOC = """
### Hold something back, let it go again, or see what is held

Nothing of a table, namespace or snapshot under a hold departs, and nothing of it is purged,
whatever the policies and limits say. Trigger it and choose an action:

| Action | What it does | It takes |
|---|---|---|
| `add` | holds it; the answer has the hold's id | name, reason, until, kind |
| `remove` | ends a hold: what it alone has kept returns to the ordinary rules | id, reason |
| `list` | every hold: who, why, until when | nothing |

These are the commands `meltline hold add`, `meltline hold remove` and `meltline hold list`, run
under your name: `meltline audit` shows it. A hold that ends soon is named by each run of
`meltline_lifecycle` for a week before. **It needs** `MELTLINE_CONFIG`, or the variable
`meltline_config`, with the path of `meltline.yaml`.

**When it fails**, the task's log says what was expected, what was found, and what to do next. A
purge that has begun to delete files of it refuses the hold, and names the files.
"""

PARAMS = {
    "action": Param(
        "list",
        type="string",
        enum=["add", "remove", "list"],
        title="Action",
        description_md="What is to be done.",
    ),
    "name": Param(
        None,
        type=["null", "string"],
        pattern=r"^[^\r\n]+$",
        title="Name",
        section="Add",
        description_md="A table or namespace, or `table@snapshot`; odd parts in backticks.",
    ),
    "until": Param(
        None,
        **INSTANT.schema,
        title="Until",
        section="Add",
        description_md="When it ends by itself. Empty: never.",
    ),
    "kind": Param(
        None,
        type=["null", "string"],
        enum=[None, "table", "schema", "database"],
        title="Kind",
        section="Add",
        description_md="Where the name could be two things.",
    ),
    "id": Param(
        None,
        type=["null", "string"],
        pattern=r"^[^\r\n]+$",
        title="Id",
        section="Remove",
        description_md="As `list` shows it.",
    ),
    "reason": Param(
        None,
        type=["null", "string"],
        maxLength=500,
        title="Reason",
        description_md="Why; for those who find it, and for the audit.",
    ),
    "dry_run": Param(
        False, type="boolean", title="Dry run", description_md="Look and say, change nothing."
    ),
}


def holds_dag(**of_dag: Any) -> DAG:
    """The DAG `meltline_holds`.

    Args:
        of_dag: What a site says otherwise, as `DAG` takes it.
    """
    with dag_of_a_command(
        "meltline_holds",
        of_dag,
        description="Holds tables, namespaces and snapshots back from departing",
        doc_md=DOC,
        params=PARAMS,
        tags=["holds"],
    ) as dag:
        CommandStep(
            task_id="hold",
            words=hold_words,
            doc_md="Runs the command; its answer is the task's XCom.",
        )
    return dag


dag = holds_dag()
