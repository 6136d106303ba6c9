"""Undrop, rollback, recover and clone, a form for each: the past comes back."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from airflow.sdk import DAG, Param

from meltline.airflow.dags.definition import dag_of_a_command
from meltline.airflow.operators.command_step import CommandStep
from meltline.airflow.requests.arguments import RESTORES, restore_words
from meltline.app.run_request import INSTANT

DOC = """
### {purpose}

Runs `meltline {action}` under your name, without Spark; `meltline audit` shows it. **With nothing
filled in** the run lists every table, and how long dropped ones can come back: the answer is in
the task's XCom. **It needs** `MELTLINE_CONFIG`, or the variable `meltline_config`.

**When it fails**, the task's log says what was expected, what was found, and what to do next;
nothing is half done. What came back, and which files were already gone, is in the task's XCom.
"""

PURPOSES = {
    "undrop": "The table, schema or database that was dropped last under a name is there again",
    "rollback": "Main points back at what it was; later commits stay readable by snapshot",
    "recover": "What waits in failsafe becomes a new table, best effort: failsafe is no backup",
    "clone": "A table, schema or database as it is or was, under a new name; no file is copied",
}

OPTIONAL: dict[str, Any] = {"type": ["null", "string"]}
TEXT = OPTIONAL | {"pattern": r"^[^\r\n]+$"}
FIELDS = {
    "name": Param(
        None,
        **TEXT,
        title="Name",
        description_md="`catalog.database[.schema].table`, odd parts in backticks; of an undrop "
        "and a clone also a schema or database. Empty: the run lists what there is.",
    ),
    "new_name": Param(
        None, **TEXT, title="New name", description_md="In full: of the new table, or of the clone."
    ),
    "kind": Param(
        None,
        **OPTIONAL,
        enum=[None, "table", "schema", "database"],
        title="Kind",
        description_md="Only needed if both a table and a schema have this name.",
    ),
    "snapshot": Param(
        None,
        **OPTIONAL,
        pattern=r"^-?\d+$",
        title="Snapshot",
        description_md="Its id. A recovery takes the newest that has expired when there is none.",
    ),
    "at": Param(None, **INSTANT.schema, title="At", description_md="What was current then."),
    "side": Param(
        None,
        **OPTIONAL,
        enum=[None, "at", "before"],
        title="At or before",
        description_md="Whether the change at the point is in; `at` if empty.",
    ),
    "offset": Param(
        None,
        type=["null", "integer"],
        maximum=0,
        title="Offset",
        description_md="Seconds from now: -3600 is an hour ago.",
    ),
    "statement": Param(None, **TEXT, title="Statement", description_md="The id of a statement."),
    "tag": Param(None, **TEXT, title="Tag", description_md="A tag of the table."),
    "ignore_insufficient": Param(
        False,
        type="boolean",
        title="Ignore insufficient retention",
        description_md="Skip tables whose history does not go back that far.",
    ),
    "reason": Param(
        None,
        **OPTIONAL,
        maxLength=500,
        title="Reason",
        description_md="It goes into the audit.",
    ),
    "dry_run": Param(False, type="boolean", title="Dry run", description_md="Preview only."),
}


def restore_dags(**of_dag: Any) -> tuple[DAG, ...]:
    """The DAGs `meltline_restore_…`: undrop, rollback, recover and clone.

    Args:
        of_dag: What a site says otherwise of each, as `DAG` takes it.
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
            doc_md="Runs the command; its answer is the task's XCom.",
        )
    return dag


undrop, rollback, recover, clone = restore_dags()
