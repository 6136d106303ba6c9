"""Runs one step of the lifecycle as an Airflow task: a Spark app whose summary becomes the XCom.

With several schedulers the tasks of one run may be on several machines; each has its own driver.
"""

import inspect
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.configuration import conf
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseXCom, Connection, Context
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)

from meltline.airflow.requests.configuration import (
    config_path,
    for_good,
    python,
    python_environment,
)
from meltline.airflow.requests.request import run_request
from meltline.argfile import in_file
from meltline.domain.errors import DriverLost, DriverUnavailable, SetupMissing, UsageInvalid
from meltline.driver.client import RunDriver
from meltline.driver.messages import StepRequest
from meltline.driver.place import DriverPlaces, run_key
from meltline.extras import refuse_connect
from meltline.jars.jar_paths import jar_paths, java_options

DRIVER = "MELTLINE_DRIVER"
_EXECUTOR = "LocalExecutor"


def driver_of_run(
    context: Context, connection: Connection, config: Path, environment: Mapping[str, str]
) -> RunDriver | None:
    """Returns the driver for a task's run; None if each step is submitted separately.

    That is so in four cases: Airflow's executor runs tasks on machines without a scheduler, Spark's
    master is not a local one, its connection has further settings, or `MELTLINE_DRIVER` is `step`.

    Args:
        context: The task's context.
        connection: The connection to Spark.
        config: The path of `meltline.yaml`.
        environment: The step's environment.

    Raises:
        UsageInvalid: `MELTLINE_DRIVER` has another value.
        OSError: The configuration cannot be read.
    """
    places = DriverPlaces.of_user(os.environ) if _may_share() else None
    master = _local_master(connection)
    if places is None or master is None:
        return None
    run = context["dag_run"]
    key = run_key((run.dag_id, run.run_id), master, config, environment)
    return RunDriver(places, key, master, python())


def _may_share() -> bool:
    choice = os.environ.get(DRIVER) or "run"
    if choice not in ("run", "step"):
        raise UsageInvalid(
            f"{DRIVER} is neither run nor step",
            object=DRIVER,
            expected="run: one Spark driver for all steps of a run; step: one for each",
            found=choice,
            next=f"unset {DRIVER}, or set it to one of these",
        )
    executors = conf.get("core", "executor").split(",")
    alone = all(name.rpartition(":")[2].rpartition(".")[2] == _EXECUTOR for name in executors)
    return choice == "run" and alone and sys.platform == "linux"


def _local_master(connection: Connection) -> str | None:
    """Returns the master of a connection that has a local master and nothing else."""
    master = connection.host or ""
    return master if master.startswith("local") and not connection.extra else None


_SUBMIT_WORDS = inspect.signature(SparkSubmitOperator.__init__).parameters.keys()
"""A site's settings of a submission; the run's driver does not support them."""


class SparkStep(SparkSubmitOperator):
    """Runs one of the Spark apps for the run it is part of, and returns the app's summary.

    The run's driver runs it if there can be one (docs/run-daily.md); otherwise it is submitted.

    Only the path of `meltline.yaml` is on the command line: the app reads its catalogs from there,
    so no secret reaches a process list, a log or XCom. Users and reasons are passed in an argfile.
    Driver and task share a machine (client mode), because the configuration and the summary are
    files. The app exits non-zero only if it failed as a whole; skipped and refused tables are in
    its summary.

    Args:
        application: The app's file.
        arguments: Additional arguments for this app alone.
        previews: Whether the step is part of a dry run.
        approvable: Whether a user's approval is passed on to the app.
        is_last: Whether no other app of the run follows.
        conn_id: The Spark connection. It must exist: without one the provider would silently submit
            to YARN.
    """

    summary_key = BaseXCom.XCOM_RETURN_KEY
    """The XCom key of the summary."""

    def __init__(
        self,
        *,
        application: str | Path,
        arguments: Sequence[str] = (),
        previews: bool = False,
        approvable: bool = False,
        is_last: bool = False,
        conn_id: str = "spark_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            application=str(application),
            conn_id=conn_id,
            deploy_mode="client",
            name=f"meltline {kwargs['task_id']}",
            **kwargs,
        )
        self.conn_id = conn_id
        self.arguments = tuple(arguments)
        self.previews = previews
        self.approvable = approvable
        self.is_last = is_last
        self._is_tuned = not kwargs.keys().isdisjoint(_SUBMIT_WORDS)

    def execute(self, context: Context) -> Mapping[str, Any]:  # type: ignore[override]
        """Runs the app and returns its summary.

        Raises:
            AirflowSkipException: There is nothing for this step to do.
            AirflowFailException: It cannot be done, and a retry would not change that.
        """
        with for_good():
            request = run_request(context, os.environ)
            if request.dry_run and not self.previews:
                raise AirflowSkipException("a dry run changes nothing")
            self.require(context)
            if not self.approvable:
                request = replace(request, approve="")
            config, connection = config_path(), self._prepared()
            with TemporaryDirectory(prefix="meltline-") as folder:
                summary = Path(folder, "summary.json")
                self.application_args = [
                    in_file(Path(folder, "words.json"), request.words(private=True)),
                    f"--config={config}",
                    f"--summary={summary}",
                    *request.words(),
                    *self.words(),
                ]
                environment = {**os.environ, **(self.env_vars or {})}
                driver = self._driver(context, connection, Path(config), environment)
                if driver is None or not self._ran(driver, context, environment):
                    super().execute(context)
                return _read(summary, self.application)

    def _driver(
        self, context: Context, connection: Connection, config: Path, environment: Mapping[str, str]
    ) -> RunDriver | None:
        """Returns the run's driver; None if a site configured how the app is submitted."""
        if self._is_tuned:
            return None
        return driver_of_run(context, connection, config, environment)

    def _ran(self, driver: RunDriver, context: Context, environment: Mapping[str, str]) -> bool:
        """Runs the app in the driver; returns false if the driver did not accept it.

        Raises:
            AirflowException: The app failed: it may be retried.
        """
        words, folder = self.application_args or (), str(Path.cwd())
        step = StepRequest(self.application, words, environment, folder, self.is_last)
        try:
            code = driver.run(step, self.log.info, alone=context["ti"].try_number > 1)
        except DriverUnavailable as unavailable:
            self.log.warning("%s: %s. Next: %s", unavailable, unavailable.found, unavailable.next)
            return False
        except DriverLost as lost:
            raise AirflowException(f"{lost}; found {lost.found}. Next: {lost.next}") from lost
        if code:
            raise AirflowException(f"{self.application} ended with exit code {code}")
        return True

    def require(self, context: Context) -> None:
        """Fails the task if a precondition of its app does not hold; here there is none."""

    def words(self) -> list[str]:
        """Returns this app's arguments beside those common to all apps."""
        return list(self.arguments)

    def _prepared(self) -> Connection:
        connection = self._required_connection()
        self.jars = ",".join(jar_paths(os.environ))
        self.conf = {
            "spark.driver.extraJavaOptions": java_options(),
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",  # each line that Spark prints is one of the task log
            **(self.conf or {}),
        }
        self.env_vars = {
            "PYSPARK_PYTHON": python(),
            **python_environment(),
            **(self.env_vars or {}),
        }
        self._require_submit({**os.environ, **self.env_vars})
        return connection

    def _require_submit(self, environment: Mapping[str, str]) -> None:
        refuse_connect(environment)
        command = self._spark_binary or "spark-submit"
        if shutil.which(command, path=environment.get("PATH")) is None:
            raise SetupMissing(
                f"there is no {command} here",
                object=command,
                expected="Spark, in this environment or in that of MELTLINE_PYTHON",
                found="none on the PATH",
                next="pip install 'meltline[spark]' here, or set MELTLINE_PYTHON to the Python of "
                "an environment that has it",
            )

    def _required_connection(self) -> Connection:
        try:
            connection: Connection = Connection.get(self.conn_id)
        except AirflowNotFoundException as missing:
            raise SetupMissing(
                f"there is no Airflow connection {self.conn_id}",
                object=self.conn_id,
                expected="a connection of type spark: local[*], or a cluster",
                found="none, which would have meant YARN",
                next=f"add it, or set AIRFLOW_CONN_{self.conn_id.upper()}="
                """'{"conn_type": "spark", "host": "local[*]"}'""",
            ) from missing
        return connection


def _read(summary: Path, application: str) -> Mapping[str, Any]:
    """Reads an app's summary; fails without one, since exit code 0 alone proves nothing."""
    try:
        document = json.loads(summary.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AirflowFailException(
            f"{application} ended without a readable summary: {error}"
        ) from error
    if not isinstance(document, dict):
        raise AirflowFailException(
            f"{application} left a summary that is no document: {document!r}"
        )
    return document
