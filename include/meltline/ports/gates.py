"""Protocol of the gate engine: evaluates gate facts against a suite.

`app/gate` and `app/prune` call it; Great Expectations implements it in `adapters`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from meltline.domain.deletion.gate import GateFacts, GateResult


class GateEngine(Protocol):
    """Evaluates gate facts; one validation may serve many plans, with one verdict per plan."""

    def judge(self, evidence: Sequence[GateFacts], now: datetime) -> Sequence[GateResult]:
        """Returns one result per set of facts. A crash yields a result that has not passed."""
        ...
