"""Runs of the chain in a process that its parent may kill at any moment.

    python -m tests.soak.chain FOLDER

Reads a line of JSON per run from its input. Tells each call of a port before it makes it, and how
the run ended, in a line each. Deletes go key by key, so that there is a moment between any two.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from meltline.app.doctor.init import init
from meltline.app.orphans.allowed_owners import allow
from meltline.app.run.lifecycle import run_chain
from meltline.app.run_request import RunRequest
from meltline.app.services import RunContext
from meltline.config.load import load_config
from meltline.domain.clock import NOW
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.foreign_owners import SignKind
from meltline.ports import DeleteOutcome, Deleter
from meltline.wiring import Wiring
from tests.lives.kills import Port, told_ports


def tell(what: str, name: str) -> None:
    """A line for the parent."""
    sys.stdout.write(f"{what} {name}\n")
    sys.stdout.flush()


class Told:
    """Tells each call of a port."""

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        tell("call", name)
        return work()


@dataclass
class KeyByKey:
    """Deletes one key after the other."""

    deleter: Deleter

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        outcomes: list[DeleteOutcome] = []
        for file in files:
            tell("call", "deleter.delete.key")
            outcomes += self.deleter.delete([file], keys_per_second)
        return outcomes


def services(folder: Path, now: str) -> RunContext:
    """The real ones, at a simulated time, with each call told."""
    environ = {**os.environ, NOW: now, "MELTLINE_USER": "soak"}
    config = load_config(folder / "meltline.yaml", environ, folder)
    built = Wiring(config, environ, progress=lambda line: None).services("soak")
    told: Any = Told()
    ports = told_ports(built, told)
    ports["deleter"] = Port(KeyByKey(built.deleter), "deleter", told)
    return replace(built, **ports)


def allow_the_gone(context: RunContext) -> None:
    """A person answers for tables that came and went between two runs: no look has seen them."""
    gone = {sign.id for sign in context.control.owners.signs() if sign.kind is SignKind.TABLE}
    for table_uuid in sorted(gone):
        allow(context, table_uuid, "its writer has dropped it")


def main(folder: Path) -> None:
    """Until its input ends, or it is killed."""
    for line in sys.stdin:
        asked = json.loads(line)
        built = services(folder, asked["now"])
        tell("ready", "")
        if asked["run"] == "init":
            init(built)
            tell("ended", "0")
            continue
        if asked["run"] == "allow":
            allow_the_gone(built)
            tell("ended", "0")
            continue
        request = RunRequest(asked["run"], datetime.fromisoformat(asked["now"]))
        tell("ended", str(run_chain(built, request).exit_code))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
