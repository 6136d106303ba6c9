"""Probe: finds out whether tables behind a server can be managed, and has the catalog keep that.

A server may delete a dropped table's files minutes after the drop. So the verdict stays open until
a second check finds them: `doctor --probe-catalog` or the first run after it is due makes it.

The verdict stands in the catalog itself, as a property of the ledger's namespace, with what the
server said of itself then. Behind the same name may stand another server tomorrow, or another
release of it: nothing of its tables expires until it is probed too (decision 048).
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from meltline.app.safety.audit import audit
from meltline.app.services import ReadContext
from meltline.config.load import CatalogConfig, Config
from meltline.domain.errors import MeltlineError, UsageInvalid
from meltline.domain.units import format_instant, parse_instant
from meltline.ports import CatalogListing, ProbedFact

PROBED = "meltline.probed"
"""The namespace property that has the verdict."""


SECOND_CHECK_AFTER = timedelta(minutes=10)
_TEXTS = ("reason", "server", "at", "dropped", "checked")


@dataclass(frozen=True)
class ServerVerdict:
    """What a probe came to.

    Attributes:
        reason: Why its tables are not managed; empty where they are.
        server: What the server said of itself, as `CatalogListing.server`.
        at: When, in UTC.
        half_seen: Where its tables may lie, if it shows only a part of them.
        dropped: The metadata file of a scratch table that the probe dropped; empty once the second
            check has looked for it.
        checked: When a second check found such a file untouched, in UTC; empty before the first.
    """

    reason: str
    server: str
    at: str
    half_seen: tuple[str, ...] = ()
    dropped: str = ""
    checked: str = ""

    @property
    def is_open(self) -> bool:
        """Whether its tables are only read until a second check is made."""
        return not self.reason and not self.checked

    @property
    def due(self) -> datetime:
        """When the second check is due: servers delete in the background, within minutes."""
        return parse_instant(self.at) + SECOND_CHECK_AFTER

    @property
    def written(self) -> str:
        """As the catalog keeps it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def read(cls, text: str) -> "ServerVerdict | None":
        """What `written` was; None where it is anything else."""
        try:
            fields = json.loads(text)
            half_seen = tuple(map(str, fields.get("half_seen", ())))
            texts = {key: str(fields[key]) for key in _TEXTS}
            verdict = cls(half_seen=half_seen, **texts)
            return verdict if not verdict.is_open or (verdict.dropped and verdict.due) else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


HALF_SEEN = "it shows one of its own branches only, and nobody can tell what the others need"


def half_seen_by(config: Config, listing: CatalogListing) -> tuple[str, ...]:
    """Where a catalog shows only a part: by its own word, or by what a probe once came to.

    What is behind the same name now may be another server; its places are not safe by that.
    """
    verdict = verdict_of(config, listing)
    return listing.half_seen or (verdict.half_seen if verdict else ())


def verdict_of(config: Config, listing: CatalogListing) -> ServerVerdict | None:
    """The verdict that a catalog keeps; None where its server was never probed."""
    properties: Mapping[str, str] = listing.namespaces.get((config.ledger_namespace,), {})
    return ServerVerdict.read(properties.get(PROBED, ""))


def unmanaged_reason(config: Config, name: str, listing: CatalogListing) -> str:
    """Why nothing of a catalog's tables expires or is let go; empty where it does.

    Args:
        config: Names the catalog's type, and the namespace of the ledger.
        name: The catalog.
        listing: What it has.
    """
    catalog: CatalogConfig = config.catalogs[name]
    if not catalog.server_commits:
        return ""
    if listing.half_seen:
        return HALF_SEEN
    verdict = verdict_of(config, listing)
    if verdict is None:
        return "its server was never probed"
    if verdict.server != listing.server:
        return "its server is not the one that was probed, or is configured otherwise"
    if verdict.is_open:
        return f"its probe waits for its second check until {format_instant(verdict.due)}"
    return verdict.reason


def is_probe_open(config: Config, listing: CatalogListing) -> bool:
    """Whether a catalog is not managed for no other reason than a second check to come."""
    verdict = verdict_of(config, listing)
    is_same = verdict is not None and verdict.server == listing.server
    return verdict is not None and is_same and verdict.is_open and not listing.half_seen


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
