"""What Great Expectations leaves behind: the page of a run, and nothing on the screen."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier

from meltline.adapters.gx.engine import GreatExpectationsEngine
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import PlanKind
from meltline.gates.suites import SUITES
from meltline.ports import GateEngine
from tests.contract.gate.test_gate_engine import LIMITS, NOW, TTL, evidence, gate, judge_one

__all__ = ["gate"]


JUDGE_IN_A_FRESH_PROCESS = """
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from meltline.adapters.gx.engine import GreatExpectationsEngine
from meltline.domain.deletion.gate import GateFacts
from meltline.domain.deletion.limits import Limits
from meltline.domain.deletion.plan import PlanKind
assert "great_expectations" not in sys.modules, "imported before it is needed"
gate = GreatExpectationsEngine(Limits(), timedelta(hours=6), Path(sys.argv[1]))
[result] = gate.judge(
    [GateFacts("e1", "sha256:e1", PlanKind.EXPIRE, {})], datetime(2026, 11, 21, tzinfo=UTC)
)
import os
assert os.environ["GX_ANALYTICS_ENABLED"] == "false"
assert result.docs, "no page was written"
"""


def test_judging_prints_nothing_and_imports_great_expectations_late(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JUDGE_IN_A_FRESH_PROCESS, str(tmp_path / "docs")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]


def test_what_judges_can_be_imported_while_something_else_is_waited_for(tmp_path: Path) -> None:
    script = JUDGE_IN_A_FRESH_PROCESS.replace(
        "[result] =",
        """from meltline.adapters.gx.engine import imported_meanwhile
with imported_meanwhile():
    pass
assert "meltline.adapters.gx.docs" in sys.modules, "nobody waited for it"
[result] =""",
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "docs")],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_run_has_one_page_for_both_kinds_and_a_second_gate_adds_to_it(tmp_path: Path) -> None:
    gate = GreatExpectationsEngine(LIMITS, TTL, tmp_path / "docs", run_id="r-20261121")
    first = gate.judge(
        [evidence(), evidence(PlanKind.PURGE, "p1"), evidence(plan_id="e2", planned_heads=4)], NOW
    )
    second = gate.judge([evidence(plan_id="e3")], NOW + timedelta(hours=1))
    [page] = (tmp_path / "docs").iterdir()
    assert page.name == "gates-r-20261121.html"
    assert {result.docs for result in [*first, *second]} == {str(page)}
    text = page.read_text("utf-8")
    assert re.findall("<h2>(.*)</h2>", text) == [
        "Suite expire, 2026-11-21T03:00:00Z",
        "Suite purge, 2026-11-21T03:00:00Z",
        "Suite expire, 2026-11-21T04:00:00Z",
    ]
    for word in ("sha256:e1", "sha256:p1", "sha256:e3", "planned_heads is 0: found 4 (e2)"):
        assert word in text
    assert text.count('class="passed">passed') == 3
    assert text.count('class="refused">refused') == 1
    assert "1 unexpected values found" in text  # Great Expectations' own words


def test_what_was_refused_stands_first_and_each_plan_says_what_it_is_about(tmp_path: Path) -> None:
    gate = GreatExpectationsEngine(LIMITS, TTL, tmp_path, run_id="r1")
    good = replace(evidence(), subject="lake.air.<b>: 3 files, 2.0 MiB")
    bad = replace(evidence(plan_id="e2", planned_heads=1), subject="lake.air.u: 1 files, 5 B")
    text = Path(gate.judge([good, bad], NOW)[0].docs).read_text("utf-8")
    first, second = re.findall("<tr><td>(lake.*?)</td><td>(e.)</td>", text)
    assert first == ("lake.air.u: 1 files, 5 B", "e2")
    assert second == ("lake.air.&lt;b&gt;: 3 files, 2.0 MiB", "e1")


def test_gates_of_several_batches_add_to_the_page_side_by_side(tmp_path: Path) -> None:
    from meltline.adapters.gx import docs, validation

    suite = SUITES[PlanKind.EXPIRE](LIMITS)
    result = validation.validate(suite, [evidence()], validation.ephemeral_context).report
    page, ready = tmp_path / "docs" / "gates-r.html", Barrier(6)

    def add(batch: int) -> None:
        verdict = GateResult(f"e{batch}", "sha256:a", "expire", 1, (), NOW, NOW)
        ready.wait()
        for _ in range(5):
            docs.add_to_page(page, "Gates of r", result, [verdict], NOW)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add, range(6)))
    text = page.read_text("utf-8")
    assert [text.count(f"<td>e{batch}</td>") for batch in range(6)] == [5] * 6
    assert [path.name for path in page.parent.iterdir()] == [page.name]


def test_the_page_needs_nothing_from_the_network_or_beside_it(tmp_path: Path) -> None:
    gate = GreatExpectationsEngine(LIMITS, TTL, tmp_path, run_id="r1")
    text = Path(judge_one(gate, evidence(planned_heads=1)).docs).read_text("utf-8")
    assert not re.findall(r"https?:|<script|<link|<img|\bsrc=|@import|url\(", text)
    assert not re.findall(r'href="(?!#)', text)


def test_the_page_shows_what_the_evidence_holds_as_text_and_not_as_markup(tmp_path: Path) -> None:
    gate = GreatExpectationsEngine(LIMITS, TTL, tmp_path, run_id="r1")
    nasty = evidence(
        planned_heads="<b>0</b>",
        planned_held=1,
        examples={"planned_held": ("<u>s</u>",)},
    )
    text = Path(judge_one(gate, nasty).docs).read_text("utf-8")
    assert not [tag for tag in ("<b>", "<u>") if tag in text]
    assert "&lt;b&gt;0&lt;/b&gt;" in text


def test_a_run_id_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    gate = GreatExpectationsEngine(LIMITS, TTL, tmp_path / "docs", run_id="../manual__2026:1+00")
    page = Path(judge_one(gate, evidence()).docs)
    assert page.parent == tmp_path / "docs"
    assert page.exists()


def test_a_page_that_cannot_be_written_takes_no_verdict_away(tmp_path: Path) -> None:
    (tmp_path / "docs").write_text("a file where the folder should be")
    gate = GreatExpectationsEngine(LIMITS, TTL, tmp_path / "docs")
    good, bad = gate.judge([evidence(), evidence(plan_id="e2", planned_heads=1)], NOW)
    assert (good.passed, bad.passed) == (True, False)
    assert good.docs == ""


def test_a_verdict_is_made_of_plain_python_values(gate: GateEngine) -> None:
    result = judge_one(gate, evidence(delete_ratio=0.99))
    assert json.dumps([failure.__dict__ for failure in result.failed])
    assert type(result.evaluated) is int
