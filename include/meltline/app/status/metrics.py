"""The metrics file: the state of purging in Prometheus' text format, for alerts.

The report step replaces it, and so does a run that fails; the pages serve the same text. It has no
table names, so that any monitoring may read it.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from meltline.app.services import ReadContext
from meltline.app.status.purge_status import purge_status
from meltline.domain.deletion.withheld import Why
from meltline.domain.errors import StoreRefused
from meltline.domain.purging.purge_status import HaltReason, PurgeStatus

_MODE = 0o644  # readable by the monitoring's own user


@dataclass(frozen=True)
class Metric:
    """A gauge with a sample for each value of its label.

    Attributes:
        label: The label's name; empty for a single sample without a label.
        samples: Values by the label's value.
    """

    name: str
    help: str
    label: str
    samples: Mapping[str, float]

    @property
    def lines(self) -> Iterator[str]:
        """Its lines in the text format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} gauge"
        for label, number in self.samples.items():
            labels = f'{{{self.label}="{label}"}}' if self.label else ""
            yield f"{self.name}{labels} {number}"


def metrics_of(status: PurgeStatus) -> list[Metric]:
    """Converts the state to metrics; labels have all their values, so that alerts can end."""
    last = status.last_success.timestamp() if status.last_success else 0
    halted = {halt.reason for halt in status.halts}
    return [
        _single("last_success_timestamp_seconds", "End of the last good run; 0: none.", last),
        Metric(
            "meltline_purge_stopped",
            "Whether nothing is deleted in the whole lake, by cause.",
            "reason",
            {str(reason): int(reason in halted) for reason in HaltReason},
        ),
        Metric(
            "meltline_held_back_bytes",
            "Bytes that nothing refers to and that are kept, by cause.",
            "reason",
            {why.name.lower(): status.held_back.get(why, 0) for why in Why},
        ),
        _single("overdue_bytes", "Bytes in failsafe that are past their day.", status.due.overdue),
        Metric("meltline_tables", "Tables ever seen, by state.", "state", status.tables),
        _single("plans_refused", "Plans that a gate refused.", status.plans_refused),
        _single("waiting_approvals", "Purges waiting for approval.", status.waiting.plans),
        Metric(
            "meltline_stage_bytes",
            "Bytes by stage, as the last report has them.",
            "stage",
            status.stage_bytes,
        ),
        _single(
            "tables_catching_up",
            "Tables whose backlog goes in portions.",
            status.catching_up,
        ),
        _single(
            "chunks_unknown",
            "Chunks of which it is unknown whether their drop was undone.",
            status.chunks_unknown,
        ),
    ]


def _single(name: str, help: str, number: float) -> Metric:
    return Metric(f"meltline_{name}", help, "", {"": number})


def text_of(status: PurgeStatus) -> str:
    """Formats the whole file."""
    lines = (line for metric in metrics_of(status) for line in metric.lines)
    return "".join(f"{line}\n" for line in lines)


def write_metrics(file: Path, status: PurgeStatus) -> None:
    """Replaces the metrics file atomically: a reader never sees half of it.

    Raises:
        StoreRefused: Its folder cannot be written.
    """
    draft = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text_of(status), encoding="utf-8")
        draft.chmod(_MODE)
        draft.replace(file)
    except OSError as error:
        raise StoreRefused(
            f"the metrics file {file} cannot be written",
            object="metrics-file",
            expected="a file in a folder that this user may write",
            found=error.strerror or str(error),
            next="make the folder writable, or name another file",
        ) from error


@contextmanager
def metrics_of_failures(context: ReadContext) -> Iterator[None]:
    """Writes the metrics file if the `with` block fails, and raises the failure again."""
    try:
        yield
    except Exception:
        if file := context.config.metrics_file:
            with suppress(Exception):  # the failure itself is more important
                write_metrics(file, purge_status(context))
        raise
