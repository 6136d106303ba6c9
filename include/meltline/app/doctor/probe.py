"""Probe: finds out whether tables behind a server can be managed, and has the catalog keep that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meltline.app.ground.audit_log import audit
from meltline.app.ground.servers import PROBED, ServerVerdict
from meltline.app.services import ReadContext
from meltline.domain.errors import UsageInvalid
from meltline.domain.units import format_instant
from meltline.ports import ProbedFact, ServerProbe

_MANAGED = "its tables are managed as those of any catalog"


@dataclass(frozen=True)
class Probed:
    """What a probe found, and what follows.

    Attributes:
        reason: Why tables of the catalog are not managed; empty where they are.
    """

    catalog: str
    facts: Sequence[ProbedFact]
    reason: str

    @property
    def sentence(self) -> str:
        """What follows, in words."""
        return (self.reason and f"its tables are read, never changed: {self.reason}") or _MANAGED


def probe_catalog(context: ReadContext, probes: Mapping[str, ServerProbe], name: str) -> Probed:
    """Tries the server of a catalog out, and stores the verdict in the ledger's namespace.

    It makes a scratch namespace with a table, and takes both away again.

    Raises:
        UsageInvalid: There is no such catalog, no server writes its metadata, or nothing may be
            made in it.
    """
    _require_probeable(context, probes, name)
    probe = probes[name]
    facts = probe.facts()
    missing = [fact for fact in facts if fact.is_needed and not fact.is_so]
    reason = "; ".join(_sentence(fact) for fact in missing)
    places = tuple(place for fact in facts for place in fact.half_seen)
    verdict = ServerVerdict(reason, probe.server, format_instant(context.clock.now()), places)
    space = (context.config.ledger_namespace,)
    context.editors[name].set_namespace_properties(space, {PROBED: verdict.written})
    audit(context, "probe", name, detail=verdict.written)
    return Probed(name, facts, reason)


def _sentence(fact: ProbedFact) -> str:
    return f"not so: {fact.question}" + (f" ({fact.detail})" if fact.detail else "")


def _require_probeable(context: ReadContext, probes: Mapping[str, ServerProbe], name: str) -> None:
    catalogs = context.config.catalogs
    if name in probes and not catalogs[name].observe_only:
        return
    state = "no catalog of that name"
    if name in catalogs:
        state = "observe-only" if catalogs[name].observe_only else f"type {catalogs[name].type}"
    raise UsageInvalid(
        f"catalog {name} is not probed",
        object=name,
        expected="a catalog of type rest that is not merely observed"
        + (f": {', '.join(probes)}" if probes else ""),
        found=state,
        next="nothing is to be done for a catalog of another type",
    )
