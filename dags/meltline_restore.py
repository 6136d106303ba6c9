"""Undrop, rollback, recover and clone, by a form: the past comes back."""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from meltline.app.run_request import INSTANT
from meltline.orchestration.command_step import CommandStep
from meltline.orchestration.words import restore_words

DOC = """
### Bring something back

Trigger it and choose an action:

| Action | What it does | It takes |
|---|---|---|
| `undrop` | the table, schema or database that was dropped last under a name is there again | name, kind |
| `rollback` | main points back at what it was; later commits stay readable by snapshot | name, and snapshot or at |
| `recover` | what waits in failsafe becomes a new table. Best effort: **failsafe is no backup** | name, new name, reason, snapshot |
| `clone` | a table, schema or database as it is or was, under a new name; no file is copied | name, new name, kind, and a point: at, offset, statement or tag |

These are the commands `meltline undrop`, `rollback`, `recover` and `clone`, run under your name:
`meltline audit` shows it. No Spark is started. **It needs** `MELTLINE_CONFIG`, or the variable
`meltline_config`, with the path of `meltline.yaml`.

**When it fails**, the task's log says what was expected, what was found, and what to do next;
nothing is half done. What came back, and which files were already gone, is in the task's XCom.
"""  # noqa: E501 - rows of a table

NAME = r"^[^\r\n]+$"

PARAMS = {
    "action": Param("undrop", type="string", enum=["undrop", "rollback", "recover", "clone"],
        title="Action", description_md="What is to be done."),
    "name": Param(type="string", pattern=NAME, title="Name",
        description_md="`catalog.database[.schema].table`, odd parts in backticks; for undrop "
        "and clone also a schema or database."),
    "kind": Param(None, type=["null", "string"], enum=[None, "table", "schema", "database"],
        title="Kind", section="Undrop and clone",
        description_md="Where the name could be two things."),
    "snapshot": Param(None, type=["null", "string"], pattern=r"^-?\d+$", title="Snapshot",
        section="Rollback and recover", description_md="Its id. A recovery takes the newest "
        "that has expired when there is none."),
    "at": Param(None, **INSTANT.schema, title="At",
        section="Rollback and clone", description_md="What was current then."),
    "new_name": Param(None, type=["null", "string"], pattern=NAME, title="New name",
        section="Recover and clone", description_md="In full: of a recovery's table, of a clone."),
    "side": Param(None, type=["null", "string"], enum=[None, "at", "before"], title="At or before",
        section="Clone", description_md="Whether the change at the point is in; `at` if empty."),
    "offset": Param(None, type=["null", "integer"], maximum=0, title="Offset", section="Clone",
        description_md="Seconds from now: -3600 is an hour ago."),
    "statement": Param(None, type=["null", "string"], pattern=NAME, title="Statement",
        section="Clone", description_md="The id of a statement."),
    "tag": Param(None, type=["null", "string"], pattern=NAME, title="Tag", section="Clone",
        description_md="A tag of the table."),
    "ignore_insufficient": Param(False, type="boolean", title="Ignore insufficient retention",
        section="Clone", description_md="Leave out tables that reach not so far back."),
    "reason": Param(None, type=["null", "string"], maxLength=500, title="Reason",
        section="Rollback and recover", description_md="A recovery's; it goes into the audit."),
    "dry_run": Param(False, type="boolean", title="Dry run",
        description_md="Look and say, change nothing."),
}  # fmt: skip


with DAG(
    "meltline_restore",
    description="Brings back what was dropped, overwritten or expired",
    doc_md=DOC,
    schedule=None,  # a person's decision
    start_date=datetime(2000, 1, 1, tzinfo=UTC),
    catchup=False,
    params=PARAMS,
    tags=["iceberg", "meltline", "restore"],
    # Not retried: what was refused once needs a person, and they wait for the answer.
    default_args={"owner": "meltline", "retries": 0, "execution_timeout": timedelta(hours=1)},
):
    CommandStep(
        task_id="restore",
        words=restore_words,
        doc_md="Runs the command; its answer is the task's XCom.",
    )
