"""The DAGs with a form, on a real catalog: the same commands, under the Airflow user's name."""

import copy
import gc
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.domain.clock import WallClock
from meltline.domain.errors import UsageInvalid
from tests.dags.airflow_home import AirflowHome

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.filterwarnings("ignore"),  # of Airflow's own making
]

RESTORE = "meltline_restore_"
UNDROP, ROLLBACK = f"{RESTORE}undrop", f"{RESTORE}rollback"
RECOVER, CLONE = f"{RESTORE}recover", f"{RESTORE}clone"
HOLDS = "meltline_holds"
NAME = "lake.air.`-odd t`"
COPY: dict[str, Any] = {"name": NAME, "new_name": "lake.air.b"}


@dataclass(frozen=True)
class Lake:
    """A SQL catalog with one table, whose name looks like an option, and a control ledger."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> "Lake":
        lake = cls(folder)
        (folder / "w").mkdir()
        catalog = lake.catalog()
        catalog.create_namespace("air")
        catalog.create_table(("air", "-odd t"), Schema(NestedField(1, "id", LongType())))
        ledger = sql_control_ledger(f"sqlite:///{folder}/control.db", WallClock())
        ledger.database.prepare()
        ledger.database.close()
        (folder / "meltline.yaml").write_text(
            "control: sqlite:///control.db\nhot: lake\ncatalogs:\n  lake:\n    type: sql\n"
            "    uri: sqlite:///catalog.db\n    warehouse: w\n"
        )
        return lake

    def catalog(self) -> SqlCatalog:
        return SqlCatalog(
            "lake", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=f"file://{self.folder}/w"
        )

    def names(self) -> list[str]:
        return [".".join(name) for name in self.catalog().list_tables("air")]

    def who(self, action: str) -> list[str]:
        """Under which names the audit has an action."""
        ledger = sql_control_ledger(f"sqlite:///{self.folder}/control.db", WallClock())
        found = [entry.who for entry in ledger.audit.entries() if entry.action == action]
        ledger.database.close()
        return found


@pytest.fixture
def lake(tmp_path: Path, airflow: AirflowHome, monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = Lake.create(tmp_path)
    monkeypatch.setenv("MELTLINE_CONFIG", str(tmp_path / "meltline.yaml"))
    return made


def dag_of(airflow: AirflowHome, name: str) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=airflow.project / "dags").dags[name]


def task_run(dag: Any, user: str | None = "ann", **conf: Any) -> Mapping[str, Any]:
    """Executes the DAG's one task with the parameters of a form, for a user."""
    (task,) = dag.tasks
    params = copy.deepcopy(dag.params)
    params.update(conf)
    run = SimpleNamespace(triggering_user_name=user)
    answer: Mapping[str, Any] = task.execute({"params": params.validate(), "dag_run": run})
    return answer


def refusal(dag: Any, **conf: Any) -> str:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException) as refused:
        task_run(dag, **conf)
    return str(refused.value)


def test_a_hold_is_added_listed_and_removed_under_the_users_name(
    lake: Lake, airflow: AirflowHome
) -> None:
    dag = dag_of(airflow, HOLDS)
    until = "2999-01-01T00:00:00Z"
    added = task_run(dag, action="add", name=NAME, reason="-- audit", until=until)
    (held,) = task_run(dag, action="list")["holds"]
    assert (held["id"], held["reason"], held["who"]) == (added["id"], "-- audit", "ann")
    assert held["until"] == until
    task_run(dag, user="ben", action="remove", id=added["id"], reason="over")
    assert task_run(dag)["holds"] == []
    assert (lake.who("hold add"), lake.who("hold remove")) == (["ann"], ["ben"])


def test_a_dropped_table_comes_back_by_the_form_and_a_dry_run_only_says_so(
    lake: Lake, airflow: AirflowHome
) -> None:
    from meltline.cli.main import run

    assert run(["drop", NAME]) == 0 and lake.names() == []
    dag = dag_of(airflow, UNDROP)
    assert task_run(dag, name=NAME, kind="table", dry_run=True)["dry_run"] is True
    assert lake.names() == []
    (row,) = task_run(dag)["rows"]  # as the form opens
    assert row["name"] == "-odd t" and row["dropped_on"]
    assert task_run(dag, name=NAME)["object"] == NAME
    assert lake.names() == ["air.-odd t"]
    assert lake.who("undrop") == ["ann"]


def test_a_table_and_a_database_are_cloned_by_the_form_under_the_users_name(
    lake: Lake, airflow: AirflowHome
) -> None:
    dag = dag_of(airflow, CLONE)
    asked = {"name": NAME, "new_name": "lake.air.`-the copy`"}
    assert task_run(dag, **asked, kind="table", dry_run=True)["dry_run"] is True
    assert lake.names() == ["air.-odd t"]
    done = task_run(dag, **asked)
    assert [one["table"] for one in done["created"]] == ["lake.air.`-the copy`"]
    assert lake.names() == ["air.-odd t", "air.-the copy"]
    assert set(lake.who("clone")) == {"ann"}
    now = {"offset": 0, "side": "at", "ignore_insufficient": True}
    whole = {"name": "lake.air", "new_name": "lake.sky", "kind": "database"}
    assert len(task_run(dag, **whole, **now)["created"]) == 2


def test_a_clone_that_cannot_be_made_fails_the_task_and_leaves_nothing(
    lake: Lake, airflow: AirflowHome
) -> None:
    dag, asked = dag_of(airflow, CLONE), COPY
    assert "NameConflict" in refusal(dag, **{**asked, "new_name": NAME})
    assert "BeforeCreation" in refusal(dag, **asked, at="2001-01-01T00:00:00Z")
    assert "OutsideRetention" in refusal(dag, **asked, at="2999-01-01T00:00:00Z")
    assert "StatementNotFound" in refusal(dag, **asked, statement="--never", side="before")
    assert "RefNotFound" in refusal(dag, **asked, tag="-q1")
    assert lake.names() == ["air.-odd t"]


def test_airflow_runs_it_whole(lake: Lake, airflow: AirflowHome) -> None:
    dag = dag_of(airflow, HOLDS)
    ended = dag.test(logical_date=None, run_conf={"action": "add", "name": NAME, "reason": "x"})
    gc.collect()
    assert str(ended.state.value) == "success" and len(lake.who("hold add")) == 1


def test_what_the_command_refuses_fails_the_task_with_the_next_step(
    lake: Lake, airflow: AirflowHome
) -> None:
    never = refusal(dag_of(airflow, UNDROP), name="lake.air.never")
    assert "meltline history" in never
    said = refusal(dag_of(airflow, ROLLBACK), name=NAME, snapshot="7")
    assert "7" in said and "next" in said
    missing = {"name": NAME, "new_name": "lake.air.b", "reason": "x"}
    assert "RecoveryImpossible" in refusal(dag_of(airflow, RECOVER), **missing)
    assert lake.names() == ["air.-odd t"]


@pytest.mark.parametrize(
    "name, conf, said",
    [
        (UNDROP, {"name": NAME, "snapshot": "7"}, "undrop does not take snapshot"),
        (ROLLBACK, {"name": NAME}, "one point"),
        (RECOVER, {"name": NAME, "new_name": "a.b.c"}, "needs reason"),
        (CLONE, {"name": NAME}, "needs new_name"),
        (CLONE, {"tag": "q"}, "needs name, new_name"),
        (CLONE, COPY | {"snapshot": "7"}, "clone does not take snapshot"),
        (CLONE, COPY | {"tag": "q", "offset": 0}, "one point"),
        (CLONE, COPY | {"side": "before"}, "one point"),
        (UNDROP, {"name": NAME, "ignore_insufficient": True}, "undrop does not take ignore"),
        (UNDROP, {"name": NAME, "offset": 0}, "undrop does not take offset"),
        (HOLDS, {"action": "add", "name": NAME}, "needs reason"),
        (HOLDS, {"action": "remove", "reason": "x"}, "needs id"),
        (HOLDS, {"name": NAME}, "list does not take name"),
    ],
)
def test_a_form_that_makes_no_command_is_refused(
    lake: Lake, airflow: AirflowHome, name: str, conf: dict[str, Any], said: str
) -> None:
    assert said in refusal(dag_of(airflow, name), **conf)


@pytest.mark.parametrize(
    "name, conf",
    [
        (UNDROP, {"name": "a\nb"}),
        (UNDROP, {"name": NAME, "kind": "view"}),
        (ROLLBACK, {"name": NAME, "snapshot": "seven"}),
        (ROLLBACK, {"name": NAME, "at": "yesterday"}),
        (CLONE, COPY | {"side": "after"}),
        (CLONE, COPY | {"offset": 1}),
        (CLONE, COPY | {"offset": "-300"}),
        (CLONE, COPY | {"tag": "a\nb"}),
        (CLONE, COPY | {"ignore_insufficient": "yes"}),
        (HOLDS, {"action": "all"}),
        (HOLDS, {"until": "2999-01-01"}),
        (HOLDS, {"reason": "x" * 501}),
        (HOLDS, {"dry_run": "yes"}),
    ],
    ids=lambda given: json.dumps(given)[:40],
)
def test_a_bad_parameter_is_rejected(airflow: AirflowHome, name: str, conf: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = copy.deepcopy(dag_of(airflow, name).params)
    with pytest.raises(ParamValidationError):
        params.update(conf)
        params.validate()


@pytest.mark.parametrize("name", [UNDROP, ROLLBACK, RECOVER, CLONE])
def test_a_form_for_what_comes_back_lists_what_there_is_as_it_opens(
    lake: Lake, airflow: AirflowHome, name: str
) -> None:
    dag = dag_of(airflow, name)
    assert [row["name"] for row in task_run(dag)["rows"]] == ["-odd t"]
    assert [row["name"] for row in task_run(dag, dry_run=True)["rows"]] == ["-odd t"]


def test_a_recovery_names_its_snapshot_as_the_command_does() -> None:
    from meltline.airflow.requests.arguments import restore_words

    asked = {"name": "a.b.t", "snapshot": "-7", "new_name": "a.b.u",
             "reason": "-x", "at": None, "kind": None, "dry_run": True}  # fmt: skip
    assert restore_words("recover", asked) == [
        "recover", "--as=a.b.u", "--reason=-x", "--dry-run", "--", "a.b.t@-7",
    ]  # fmt: skip
    with pytest.raises(UsageInvalid):
        restore_words("recover", {**asked, "at": "2026-01-01T00:00:00Z"})


def test_a_clone_names_its_point_as_the_command_does() -> None:
    from meltline.airflow.requests.arguments import restore_words

    blank = dict.fromkeys(
        ("kind", "snapshot", "at", "side", "offset", "statement", "tag", "reason")
    )
    asked = {"name": "a.b.t", "new_name": "-u", "dry_run": True,
             "ignore_insufficient": False, **blank}  # fmt: skip
    assert restore_words("clone", asked) == ["clone", "--dry-run", "--", "a.b.t", "-u"]
    assert restore_words("clone", {**asked, "offset": -5, "ignore_insufficient": True}) == [
        "clone", "--ignore-insufficient", "--at", "--offset=-5", "--dry-run", "--", "a.b.t", "-u",
    ]  # fmt: skip
    assert restore_words("clone", {**asked, "at": "2026-01-01T00:00:00Z", "side": "before"}) == [
        "clone", "--before", "--timestamp=2026-01-01T00:00:00Z", "--dry-run", "--", "a.b.t", "-u",
    ]  # fmt: skip


def test_reasons_stand_on_no_command_line(
    lake: Lake, airflow: AirflowHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, seen = tmp_path / "python", tmp_path / "command lines"
    python.write_text(f'#!/bin/sh\necho "$@" >> "{seen}"\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    dag = dag_of(airflow, HOLDS)
    added = task_run(dag, user="ada", action="add", name=NAME, reason="the customer left")
    (held,) = task_run(dag, action="list")["holds"]
    assert (held["id"], held["reason"], held["who"]) == (added["id"], "the customer left", "ada")
    assert "meltline.cli.main" in seen.read_text()
    assert "customer" not in seen.read_text() and "ada" not in seen.read_text().split()
