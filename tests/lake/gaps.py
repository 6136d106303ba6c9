"""Services that call back between the steps of a run, so that others may act just there.

What is injected are the ports: each passes its calls on, and lets others act after one of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from meltline.app.services import RunContext


class Gap(StrEnum):
    """A moment between two steps of ours."""

    LISTED = "a catalog was listed, and none of its tables read yet"
    SIGHTED = "an observation has noted what is on no branch, and not stored the tables yet"
    OBSERVED = "everything was observed, and nothing planned yet"
    PLANNED = "plans were stored, and not judged yet"
    PROVED = "a gate has read its files, and given no verdict yet"
    GATED = "the verdicts were stored, and nothing committed yet"
    COMMITTING = "a table was checked for its commit, which is not made yet"
    COMMITTED = "a commit was made, and what departed not recorded yet"
    DELETED = "a part of a purge was deleted, and the next not proved yet"


Act = Callable[[Gap], None]

_AFTER: Mapping[str, Mapping[str, Gap]] = {
    "proofs": {"prove": Gap.PROVED},
    "committer": {"expire": Gap.COMMITTED},
    "deleter": {"delete": Gap.DELETED},
}
_AFTER_LEDGER: Mapping[str, Mapping[str, Gap]] = {
    "observations": {"save_sightings": Gap.SIGHTED},
    "registrations": {"save": Gap.OBSERVED},
    "plans": {"add": Gap.PLANNED},
    "verdicts": {"save": Gap.GATED},
}
_BEFORE: Mapping[str, Mapping[str, Gap]] = {"committer": {"expire": Gap.COMMITTING}}


def with_gaps(services: RunContext, act: Act) -> RunContext:
    """The same services; others act in each gap, and not in the gaps of what they do themselves."""
    inside: list[Gap] = []

    def reached(gap: Gap) -> None:
        if not inside:
            inside.append(gap)
            try:
                act(gap)
            finally:
                inside.clear()

    ports: dict[str, Any] = {
        port: _Port(getattr(services, port), _BEFORE.get(port, {}), after, reached)
        for port, after in _AFTER.items()
    }
    parts: dict[str, Any] = {
        part: _Port(getattr(services.control, part), {}, after, reached)
        for part, after in _AFTER_LEDGER.items()
    }
    ports["control"] = replace(services.control, **parts)
    ports["catalogs"] = {
        name: _Port(catalog, {}, {"listing": Gap.LISTED}, reached)
        for name, catalog in services.catalogs.items()
    }
    return replace(services, **ports)


@dataclass(frozen=True)
class _Port:
    """A port that passes everything on."""

    inner: Any
    before: Mapping[str, Gap]
    after: Mapping[str, Gap]
    reached: Act

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name not in self.before and name not in self.after:
            return method

        def call(*args: Any, **named: Any) -> Any:
            if name in self.before:
                self.reached(self.before[name])
            answer = method(*args, **named)
            if name in self.after:
                self.reached(self.after[name])
            return answer

        return call
