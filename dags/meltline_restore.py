"""Restores the past, with a form for each action: undrop, rollback, recover and clone."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from airflow.sdk import DAG, Param

from meltline.airflow.dags.definition import dag_of_a_command
from meltline.airflow.dags.form import line_field, text_field
from meltline.airflow.operators.command_step import CommandStep
from meltline.airflow.requests.arguments import RESTORES, restore_words
from meltline.app.run_request import INSTANT

DOC = """
### {purpose}

Runs `meltline {action}` under your name, without Spark; `meltline audit` shows it. **With an empty
form** the run lists every table, and how long dropped ones can be restored: the list is in the
task's XCom. **It needs** `MELTLINE_CONFIG`, or the variable `meltline_config`.

**When it fails**, the task's log says what was expected, what was found, and what to do next;
nothing is half done. The task's XCom lists what was restored, and which files were already gone.
"""

PURPOSES = {
    "undrop": "Restore the table, schema or database that was dropped last under a name",
    "rollback": "Move main back to an earlier snapshot; later commits stay readable by snapshot",
    "recover": "Restore files in failsafe as a new table. Best effort; failsafe is no backup",
    "clone": "Clone a table, schema or database, current or past; no file is copied",
}

FIELDS = {
    "name": line_field(
        "Name",
        "`catalog.database[.schema].table`, special characters in backticks; "
        "undrop and clone also take a schema or database. Empty: the run lists all tables.",
    ),
    "new_name": line_field("New name", "The full name of the new table or clone."),
    "kind": text_field(
        "Kind",
        "Only needed if both a table and a schema have this name.",
        enum=[None, "table", "schema", "database"],
    ),
    "snapshot": text_field(
        "Snapshot",
        "The snapshot's id. If empty, recover takes the newest expired one.",
        pattern=r"^-?\d+$",
    ),
    "at": Param(None, **INSTANT.schema, title="At", description_md="The state at that time."),
    "side": text_field(
        "At or before",
        "Whether the change at the point is included; `at` if empty.",
        enum=[None, "at", "before"],
    ),
    "offset": Param(
        None,
        type=["null", "integer"],
        maximum=0,
        title="Offset",
        description_md="Seconds from now: -3600 is an hour ago.",
    ),
    "statement": line_field("Statement", "The id of a statement."),
    "tag": line_field("Tag", "A tag of the table."),
    "ignore_insufficient": Param(
        False,
        type="boolean",
        title="Ignore insufficient retention",
        description_md="Skip tables whose history does not go back that far.",
    ),
    "reason": text_field("Reason", "Recorded in the audit.", maxLength=500),
    "dry_run": Param(False, type="boolean", title="Dry run", description_md="Preview only."),
}


def restore_dags(**of_dag: Any) -> tuple[DAG, ...]:
    """Builds the DAGs `meltline_restore_…`: undrop, rollback, recover and clone.

    Args:
        of_dag: A site's overrides for each, as `DAG` takes them.
    """
    return tuple(_restore_dag(action, of_dag) for action in RESTORES)


def _restore_dag(action: str, of_dag: Mapping[str, Any]) -> DAG:
    known = {*RESTORES[action].needs, *RESTORES[action].knows, "dry_run"}
    with dag_of_a_command(
        f"meltline_restore_{action}",
        of_dag,
        description=PURPOSES[action],
        doc_md=DOC.format(purpose=PURPOSES[action], action=action),
        params={name: field for name, field in FIELDS.items() if name in known},
        tags=["restore"],
    ) as dag:
        CommandStep(
            task_id=action,
            words=partial(restore_words, action),
            doc_md="Runs the command; its result is the task's XCom.",
        )
    return dag


undrop, rollback, recover, clone = restore_dags()
