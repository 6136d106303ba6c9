"""The init command: prepares the ledgers.

`commands` loads it by name.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from meltline.app.doctor.init import Adopted
from meltline.app.doctor.init import init as initialise
from meltline.app.ownership.roots import as_yaml
from meltline.app.safety.arming import ArmingCheck
from meltline.app.safety.installations import require_typed
from meltline.cli.options import AsJson, ConfigPath, wire
from meltline.cli.output import answer, console, print_json
from meltline.config.example import write_example
from meltline.domain.safe_text import quote
from meltline.domain.units import format_instant


def init(
    config: ConfigPath = None,
    as_json: AsJson = False,
    sandbox: Annotated[bool, typer.Option(help="mark an empty warehouse as a sandbox")] = False,
    adopt: Annotated[
        bool, typer.Option(help="accept a ledger that lost its past; all failsafe restarts")
    ] = False,
    installation: Annotated[
        str, typer.Option(help="with --adopt: the id of the installation that has ended")
    ] = "",
    example: Annotated[
        bool, typer.Option("--example", help="write a commented meltline.yaml, and nothing else")
    ] = False,
) -> int:
    """Prepare the ledgers; running it again changes nothing."""
    if example:
        return _write_example(config, as_json=as_json)
    wiring = wire(config)
    context = wiring.services("init")
    if adopt:
        context.control.database.prepare()  # a lost one is empty, and knows no id
        require_typed(context, installation)
    done = initialise(context, adopt=adopt, sandbox=sandbox)
    if as_json:
        print_json(done)
    else:
        console().print(f"The ledgers are ready (generation {done.generation}).")
        for line in _about_adoption(done.lost) if done.lost else ():
            console().print(line, markup=False, soft_wrap=True)
        if line := about_arming(ArmingCheck.of(context)):
            console().print(line, markup=False, soft_wrap=True)
        if done.storage_roots:
            console().print("Tables lie outside every root, and nothing of them will be deleted.")
            console().print("If they are yours to delete from, add to the configuration:")
            console().print(as_yaml(done.storage_roots), markup=False, soft_wrap=True)
    return 0


def about_arming(check: ArmingCheck) -> str:
    """Says whether runs delete in the hot catalog, and why; empty if an operator armed it."""
    if check.is_sandbox:
        return f"{check.catalog.name} is armed: sandbox. Runs delete there without `meltline arm`."
    refused = check.refusal()
    return f"Runs only report until you arm {refused.object}: {refused.next}." if refused else ""


def _write_example(config: Path | None, *, as_json: bool) -> int:
    path = config or Path(os.environ.get("MELTLINE_CONFIG") or "meltline.yaml")
    schema = write_example(path)
    lines = [
        f"{path} has every key with what it means, and {schema.name} is for your editor.",
        "Name your catalogs there, then `meltline init` and `meltline doctor`.",
    ]
    return answer(
        {"config": str(path), "schema": str(schema)},
        lines,
        as_json=as_json,
    )


def _about_adoption(lost: Adopted) -> Iterator[str]:
    """Lists the consequences of adopting a ledger."""
    span = "nothing" if lost.unknown_since is None else "what was written until "
    span += format_instant(lost.unknown_since) if lost.unknown_since else ""
    yield f"This ledger knows {span}; leases, statements and runs since are not known."
    if lost.last_known:
        yield f"The catalog's last decision or run: {lost.last_known}"
    if lost.stop:
        yield f"A stop is in force again ({lost.stop}): `meltline go` when it is safe to go on."
    else:
        yield "The catalog knows of no stop that was in force."
    yield f"{lost.approvals} approvals count no more: `meltline apply PLAN --approve REASON`."
    for policy in lost.chunk_policies:
        yield f"This policy of chunks counts no more, and has to be added anew: {policy}."
    for table in lost.words:
        yield (
            f"Nobody vouches for {table} any more: `meltline detach {quote(table)} --reason TEXT`."
        )
