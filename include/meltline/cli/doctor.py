"""The doctor command: checks a lake and its ledgers, without a JVM.

`commands` loads it by name. The findings are in `app`.
"""

import os
from itertools import chain
from typing import Annotated

import typer

from meltline.app.chunks.reading.cold_row_findings import cold_row_findings
from meltline.app.doctor.doctor import examine, worst_first
from meltline.app.doctor.installation import installation_findings
from meltline.app.observe.losses.deep_findings import deep_findings
from meltline.app.safety.server_probe import probe_catalog
from meltline.cli.options import AsJson, ConfigPath, wire
from meltline.cli.output import answer_rows, print_notes
from meltline.wiring import Wiring


def doctor(
    config: ConfigPath = None,
    as_json: AsJson = False,
    probe: Annotated[
        str,
        typer.Option(
            "--probe-catalog",
            metavar="NAME",
            help="try out the server of a REST catalog in a scratch namespace; keep the verdict",
        ),
    ] = "",
    deep: Annotated[
        bool,
        typer.Option("--deep", help="look at the metadata files of every head, one by one"),
    ] = False,
) -> int:
    """Check everything that excludes a table, blocks a run, or endangers files."""
    wiring = wire(config)
    if probe:
        return _probe(wiring, probe, as_json=as_json)
    context = wiring.ledgers()
    checks = [installation_findings(os.environ), examine(context), cold_row_findings(context)]
    if deep:
        checks.append(list(deep_findings(context)))
    findings = worst_first(chain.from_iterable(checks))
    rows = [[f.level, f.code, f.object, f.message, f.fix] for f in findings]
    columns = ("level", "code", "object", "message", "fix")
    document, nothing = {"findings": findings}, "Nothing to report."
    answer_rows(document, columns, rows, as_json=as_json, nothing=nothing)
    return 1 if any(finding.level == "error" for finding in findings) else 0


def _probe(wiring: Wiring, name: str, *, as_json: bool) -> int:
    probed = probe_catalog(wiring.ledgers(), name)
    document = {
        "catalog": name,
        "managed": not probed.verdict.reason and not probed.waits_until,
        "waits_until": probed.waits_until,
        "facts": probed.facts,
    }
    rows = [
        [
            fact.question,
            "yes" if fact.is_so else "no",
            "needed" if fact.is_needed else "",
            fact.detail,
        ]
        for fact in probed.facts
    ]
    columns = ("what was asked", "answer", "", "detail")
    answer_rows(document, columns, rows, as_json=as_json, nothing="")
    print_notes(() if as_json else [f"catalog {name}: {probed.sentence}"])
    return 1 if probed.verdict.reason else 0
