"""The alert rules: each goes by metrics of the metrics file, in a form that Prometheus reads."""

import re
from typing import Any

import pytest
import yaml

from meltline.app.status.metrics import metrics_of
from meltline.domain.purging.purge_status import HaltReason, PurgeStatus
from tests.lake.lake import T0
from tests.unit.deploy.compose_file import ROOT

FILE = ROOT / "deploy" / "meltline.rules.yml"
PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
METRICS = {metric.name: metric for metric in metrics_of(PurgeStatus(T0))}
DURATION = re.compile(r"\d+(ms|s|m|h|d|w|y)")
PROMQL = {"time", "max", "by", "instance"}
"""Of PromQL's own vocabulary, the part that the rules use; all else is a metric or its label."""


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    assert group.keys() == {"name", "rules"}
    alerts: list[dict[str, Any]] = group["rules"]
    return alerts


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_has_prometheus_form_and_names_metrics_of_the_file(rule: dict[str, Any]) -> None:
    assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["annotations"].keys() == {"summary", "description"}
    assert DURATION.fullmatch(rule["for"]) and rule["labels"].keys() == {"severity"}
    named = set(re.findall(r"[a-z_]+", rule["expr"]))
    used = named & METRICS.keys()
    assert len(used) == 1, rule["expr"]
    assert named - used - PROMQL <= {METRICS[name].label for name in used}
    assert rule["expr"].count("(") == rule["expr"].count(")")
    assert rule["alert"] in PAGE


def test_there_are_six_as_the_page_says() -> None:
    assert len({rule["alert"] for rule in rules()}) == 6
    assert len(re.findall(r"^\d\. `Meltline\w+`", PAGE, re.MULTILINE)) == 6


def test_the_page_has_every_metric_and_every_cause() -> None:
    told = dict(re.findall(r"^\| `(meltline_\w+)(?:\{(\w+)\})?`", PAGE, re.MULTILINE))
    assert told == {metric.name: metric.label for metric in METRICS.values()}
    causes = PAGE.split("## When purging has stopped")[1].split("## ")[0]
    assert re.findall(r"^\| `(\w+)`", causes, re.MULTILINE) == [str(each) for each in HaltReason]
