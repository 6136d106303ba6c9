"""What is wrong with a lake and its ledgers, without a JVM."""

import os

from meltline.app.doctor.doctor import examine, worst_first
from meltline.app.doctor.installation import installation_findings
from meltline.cli.options import AsJson, ConfigPath, wire
from meltline.cli.output import answer_rows


def doctor(config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Everything that keeps a table out, holds a run back, or endangers files."""
    of_lake = examine(wire(config).ledgers())
    findings = worst_first([*installation_findings(os.environ), *of_lake])
    rows = [[f.level, f.code, f.object, f.message, f.fix] for f in findings]
    columns = ("level", "code", "object", "message", "fix")
    document, nothing = {"findings": findings}, "Nothing to report."
    answer_rows(document, columns, rows, as_json=as_json, nothing=nothing)
    return 1 if any(finding.level == "error" for finding in findings) else 0
