"""The engine that judges evidence."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from meltline.domain.deletion.gate import GateFacts, GateResult


class GateEngine(Protocol):
    """Judges evidence; one validation may serve many plans, its verdict is per plan."""

    def judge(self, evidence: Sequence[GateFacts], now: datetime) -> Sequence[GateResult]:
        """One result per piece of evidence. A crash is a result that has not passed."""
        ...
