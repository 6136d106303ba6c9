"""Runs a `meltline` command as an Airflow task; its JSON document becomes the XCom."""

import json
import logging
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from meltline.airflow.requests.configuration import (
    config_path,
    for_good,
    python,
    python_environment,
)
from meltline.argfile import in_file

_LOG = logging.getLogger(__name__)


class CommandStep(BaseOperator):
    """Runs a command as a user would type it, in a separate process, under the user's name.

    The audit then names the Airflow user who triggered the run. The command's imports (SQLAlchemy,
    PyIceberg) do not conflict with Airflow's. Its arguments are passed in an argfile: other users
    of the machine cannot read reasons in the process list.

    Args:
        words: Builds the command and its options from the run's parameters; raises UsageInvalid.
    """

    def __init__(
        self, *, words: Callable[[Mapping[str, Any]], Sequence[str]], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.words = words

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Runs the command and returns its document.

        Raises:
            AirflowFailException: The command refused, or the parameters are invalid. The message
                contains the next step; a retry would not change it.
        """
        with for_good():
            words = list(self.command(context))
            config, interpreter = config_path(), python()
        user = self.user(context)
        with TemporaryDirectory(prefix="meltline-") as folder:
            words_file = in_file(Path(folder, "words.json"), _with_config(words, config))
            done = subprocess.run(
                [interpreter, "-m", "meltline.cli.main", words_file],
                env={
                    **os.environ,
                    **python_environment(),
                    **({"MELTLINE_USER": user} if user else {}),
                },
                capture_output=True,
                text=True,
                check=False,
            )
        return _answer(words[0], done)

    def command(self, context: Context) -> Sequence[str]:
        """Returns the command and its options."""
        return self.words(context["params"])

    def user(self, context: Context) -> str | None:
        """Returns the user it runs as; None if no user triggered the run."""
        return getattr(context["dag_run"], "triggering_user_name", None)


def _with_config(words: Sequence[str], config: str) -> list[str]:
    """Inserts options before `--`: a name follows it, which may begin with a dash."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], f"--config={config}", "--json", *words[at:]]


def _answer(command: str, done: subprocess.CompletedProcess[str]) -> Mapping[str, Any]:
    for line in done.stderr.splitlines():
        _LOG.info("%s", line)
    try:
        document: Any = json.loads(done.stdout)
    except ValueError as unreadable:
        raise AirflowFailException(
            f"meltline {command} gave no answer: {unreadable}"
        ) from unreadable
    _LOG.info("%s", document)
    if done.returncode:
        error = document.get("error") or {"message": f"meltline {command} left something out"}
        parts = [f"{error.get('type', command)}: {error['message']}"]
        parts += [f"{key} {error[key]}" for key in ("expected", "found", "next") if error.get(key)]
        raise AirflowFailException("; ".join(parts))
    return dict(document)
