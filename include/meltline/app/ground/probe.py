"""Probe: finds out whether tables behind a server can be managed, and has the catalog keep that.

A server may delete a dropped table's files minutes after the drop. So the verdict stays open until
a second check finds them: `doctor --probe-catalog` or the first run after it is due makes it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from meltline.app.ground.audit_log import audit
from meltline.app.ground.servers import PROBED, ServerVerdict, unmanaged_reason, verdict_of
from meltline.app.services import ReadContext
from meltline.domain.errors import MeltlineError, UsageInvalid
from meltline.domain.units import format_instant
from meltline.ports import CatalogListing, ProbedFact

_MANAGED = "its tables are managed as those of any catalog"


@dataclass(frozen=True)
class Probed:
    """The result of a probe.

    Attributes:
        catalog: Whose server was probed.
        facts: Questions and answers; none where the second check alone was made.
        verdict: What the catalog keeps of it.
    """

    catalog: str
    facts: Sequence[ProbedFact]
    verdict: ServerVerdict

    @property
    def waits_until(self) -> str:
        """When the second check is due; empty where none is needed before tables are managed."""
        return format_instant(self.verdict.due) if self.verdict.is_open else ""

    @property
    def sentence(self) -> str:
        """The consequence, for a person."""
        if self.verdict.reason:
            return f"its tables are read, never changed: {self.verdict.reason}"
        if self.verdict.is_open:
            return (
                "its tables are only read until a second check finds a dropped table's files "
                f"untouched: the first run after {self.waits_until} makes it, or this command"
            )
        return _MANAGED


def probe_catalog(context: ReadContext, name: str) -> Probed:
    """Tries the server of a catalog out, and stores the verdict in the ledger's namespace.

    It makes a scratch namespace with a table, and takes both away again. Where a second check is
    open it makes that one, or says when it is due.

    Raises:
        UsageInvalid: There is no such catalog, no server writes its metadata, or nothing may be
            made in it.
    """
    _require_probeable(context, name)
    former = verdict_of(context.config, context.catalogs[name].listing())
    server = context.probes[name].server
    if former is None or former.server != server:
        return _first_check(context, name, "")
    if former.dropped and context.clock.now() < former.due:
        return Probed(name, (), former)
    try:
        decided = _second_check(context, name, former) if former.dropped else former
    except MeltlineError:  # it cannot be told: a new scratch table tells more than the old one
        decided = former
    if former.dropped and decided != former:
        return Probed(name, (), decided)
    return _first_check(context, name, former.checked)


def probe_notices(context: ReadContext, listings: Mapping[str, CatalogListing]) -> Sequence[str]:
    """Why the tables of the hot catalog are only read, where its probe is the reason."""
    hot = context.config.hot
    listing = listings.get(hot)
    if listing is None or listing.half_seen or verdict_of(context.config, listing) is None:
        return []
    reason = unmanaged_reason(context.config, hot, listing)
    return [f"tables of catalog {hot} are only read: {reason}"] if reason else []


def second_check(
    context: ReadContext, listings: Mapping[str, CatalogListing]
) -> Sequence[str] | None:
    """Makes the second check of the hot catalog's server where one is due.

    Returns:
        Notices, if it could not be told; None where nothing was due.
    """
    hot = context.config.hot
    listing = listings.get(hot)
    if listing is None or hot not in context.probes or context.catalogs[hot].observe_only:
        return None
    verdict = verdict_of(context.config, listing)
    is_pending = verdict is not None and verdict.dropped and verdict.server == listing.server
    if verdict is None or not is_pending or context.clock.now() < verdict.due:
        return None
    try:
        _second_check(context, hot, verdict)
    except MeltlineError as error:
        return [f"the second check of the probe of catalog {hot} failed: {error}"]
    return []


def _first_check(context: ReadContext, name: str, checked: str) -> Probed:
    """Asks everything; `checked` is when this server was last found to leave dropped files."""
    probe = context.probes[name]
    facts = probe.facts()
    missing = [fact for fact in facts if fact.is_needed and not fact.is_so]
    reason = "; ".join(_sentence(fact) for fact in missing)
    places = tuple(place for fact in facts for place in fact.half_seen)
    now = format_instant(context.clock.now())
    dropped = "" if reason else probe.drop_scratch()
    verdict = ServerVerdict(reason, probe.server, now, places, dropped, "" if reason else checked)
    _keep(context, name, verdict)
    return Probed(name, facts, verdict)


def _second_check(context: ReadContext, name: str, verdict: ServerVerdict) -> ServerVerdict:
    """Decides an open verdict. Raises MeltlineError where it cannot be told."""
    is_deleted = context.probes[name].deleted_since(verdict.dropped)
    now = format_instant(context.clock.now())
    reason = (
        f"it deletes the files of a dropped table later: dropped at {verdict.at}, gone at {now}"
    )
    decided = replace(
        verdict,
        reason=reason if is_deleted else "",
        dropped="",
        checked="" if is_deleted else now,
    )
    _keep(context, name, decided)
    with suppress(MeltlineError):  # only now: a run that dies before finds the file once more
        context.remover.delete([verdict.dropped])
    return decided


def _keep(context: ReadContext, name: str, verdict: ServerVerdict) -> None:
    space = (context.config.ledger_namespace,)
    context.editors[name].set_namespace_properties(space, {PROBED: verdict.written})
    audit(context, "probe", name, detail=verdict.written)


def _sentence(fact: ProbedFact) -> str:
    return f"not so: {fact.question}" + (f" ({fact.detail})" if fact.detail else "")


def _require_probeable(context: ReadContext, name: str) -> None:
    catalogs, probes = context.config.catalogs, context.probes
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
