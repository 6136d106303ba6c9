"""A plan as it is stored, without a JVM."""

from typing import Annotated, Any

import typer

from meltline.app.run.summary import plan_document
from meltline.cli.options import AsJson, ConfigPath, PlanName, ready
from meltline.cli.output import console, plain, print_json, print_plans, print_rows
from meltline.domain.units import format_size


def show_plan(
    plan: PlanName,
    config: ConfigPath = None,
    as_json: AsJson = False,
    items: Annotated[bool, typer.Option("--items", help="list every file")] = False,
) -> int:
    """A stored plan, and with --items every file of it."""
    context = ready(config)
    stored = context.control.plans.get(plan)
    document: dict[str, Any] = plan_document(stored)
    files = context.reader.items(stored.id) if items else []
    if items:
        document["items"] = [plain(file) for file in files]
    if as_json:
        print_json(document)
        return 0
    print_plans([stored])
    if stored.note:
        console().print(stored.note)
    if items:
        rows = [[f.path, str(f.kind), format_size(f.bytes)] for f in files]
        print_rows("", ("path", "kind", "bytes"), rows)
    return 0
