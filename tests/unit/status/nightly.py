"""A lake that is run each night with a metrics file, and what its report says of purging."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from meltline.app.run.lifecycle import run_step
from meltline.app.run.recorded import keep_summary, run_recorded
from meltline.app.run.steps import STEPS
from meltline.app.run.summary import Summary
from meltline.app.services import RunContext
from meltline.app.status.purge_status import purge_status
from meltline.domain.purging.purge_status import HaltReason, PurgeStatus
from meltline.ports import Committer, RunRecord
from tests.lake.lake import DAY, T0, Lake, Table


@dataclass
class NightlyLake:
    """A busy table, and a run each night whose summary the ledger keeps."""

    file: Path
    lake: Lake = field(default_factory=Lake)

    def __post_init__(self) -> None:
        self.table: Table = self.lake.on(0).table("busy")
        self.table.append("first")

    def services(self) -> RunContext:
        return self.lake.services(config=replace(self.lake.config(), metrics_file=self.file))

    def night(self, day: float, tables: tuple[str, ...] = ()) -> Summary:
        """A day's overwrite and the run of the night after it."""
        self.table.overwrite(f"f{day}")
        self.lake.on(day)
        return self.run(tables)

    def run(self, tables: tuple[str, ...] = ()) -> Summary:
        """A run without anything new."""
        return run_recorded(self.services(), self.lake.request(tables=tables))

    def stepwise(self, day: float, committer: Committer | None = None) -> Mapping[str, Any]:
        """The run of a night as Airflow has it, each step in a process; what is kept of it."""
        self.table.overwrite(f"f{day}")
        self.lake.on(day)
        request, runs = self.lake.request(), self.lake.control.runs
        record = RunRecord(request.run_id, request.as_of, self.lake.clock.now())
        runs.start(record)
        for step in STEPS:
            services = self.services()
            services = replace(services, committer=committer or services.committer)
            summary = run_step(step, services, request)
            ended = replace(record, ended_at=self.lake.clock.now())
            keep_summary(runs, ended, step, summary)
        document: Mapping[str, Any] = json.loads(runs.get(request.run_id).summary)
        return document

    def nights(self, *days: float) -> Summary:
        return [self.night(day) for day in days][-1]

    def status(self) -> PurgeStatus:
        return purge_status(self.services())

    def halts(self) -> dict[HaltReason, float]:
        """Each cause for which purging has stopped, with the day since when."""
        return {halt.reason: (halt.since - T0) / DAY for halt in self.status().halts}

    def samples(self) -> dict[tuple[str, str], float]:
        """The metrics file: numbers by metric and label, as Prometheus' own parser reads them."""
        families = text_string_to_metric_families(self.file.read_text())
        return {
            (sample.name, next(iter(sample.labels.values()), "")): sample.value
            for family in families
            for sample in family.samples
        }
