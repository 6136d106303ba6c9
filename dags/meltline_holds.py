"""Adds, removes and lists holds, by a form: files of a held object are not expired or purged."""

from typing import Any

from airflow.sdk import DAG, Param

from meltline.airflow.dags.definition import dag_of_a_command
from meltline.airflow.dags.form import line_field, text_field
from meltline.airflow.operators.command_step import CommandStep
from meltline.airflow.requests.arguments import hold_words
from meltline.app.run_request import INSTANT

DOC = """
### Add, remove or list holds

Files of a table, namespace or snapshot under a hold are neither expired nor purged, whatever the
policies and limits say. Trigger it and choose an action:

| Action | What it does | It takes |
|---|---|---|
| `add` | adds a hold; the result has the hold's id | name, reason, until, kind |
| `remove` | ends a hold: the ordinary rules apply again to what it alone kept | id, reason |
| `list` | lists every hold: who, why, until when | nothing |

These are the commands `meltline hold add`, `meltline hold remove` and `meltline hold list`, run
under your name: `meltline audit` shows it. Each run of `meltline_lifecycle` names a hold that ends
within a week. **It needs** `MELTLINE_CONFIG`, or the variable `meltline_config`, with the path of
`meltline.yaml`.

**When it fails**, the task's log says what was expected, what was found, and what to do next. If a
purge has begun to delete files of the object, the hold is refused, and the files are named.
"""

PARAMS = {
    "action": Param(
        "list",
        type="string",
        enum=["add", "remove", "list"],
        title="Action",
        description_md="The action to run.",
    ),
    "name": line_field(
        "Name",
        "A table, namespace or `table@snapshot`; special characters in backticks.",
        section="Add",
    ),
    "until": Param(
        None,
        **INSTANT.schema,
        title="Until",
        section="Add",
        description_md="When it ends automatically. Empty: never.",
    ),
    "kind": text_field(
        "Kind",
        "Only needed if both a table and a schema have this name.",
        enum=[None, "table", "schema", "database"],
        section="Add",
    ),
    "id": line_field("Id", "As `list` shows it.", section="Remove"),
    "reason": text_field(
        "Reason", "Why it is held; shown in lists and in the audit.", maxLength=500
    ),
    "dry_run": Param(False, type="boolean", title="Dry run", description_md="Preview only."),
}


def holds_dag(**of_dag: Any) -> DAG:
    """Builds the DAG `meltline_holds`.

    Args:
        of_dag: A site's overrides, as `DAG` takes them.
    """
    with dag_of_a_command(
        "meltline_holds",
        of_dag,
        description="Protects tables, namespaces and snapshots from expiry and purge",
        doc_md=DOC,
        params=PARAMS,
        tags=["holds"],
    ) as dag:
        CommandStep(
            task_id="hold",
            words=hold_words,
            doc_md="Runs the command; its result is the task's XCom.",
        )
    return dag


dag = holds_dag()
