"""Probes a catalog server: finds out whether its tables can be managed, and stores the verdict.

`doctor --probe-catalog` and runs call it. A server may delete a dropped table's files minutes after
the drop. So the verdict stays open until a second check finds them: the command, or the first run
after it is due, makes it.

The verdict is stored in the catalog itself, as a property of the ledger's namespace, with the
server's description at that time. Another server, or another release, may answer under the same
name tomorrow: nothing of its tables expires until it is probed too (decision 048).
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
"""The namespace property with the verdict."""


SECOND_CHECK_AFTER = timedelta(minutes=10)
_TEXTS = ("reason", "server", "at", "dropped", "checked")


@dataclass(frozen=True)
class ServerVerdict:
    """Verdict of a probe.

    Attributes:
        reason: Why its tables are not managed; empty if they are.
        server: The server's description, as `CatalogListing.server`.
        at: The time of the probe, in UTC.
        half_seen: Possible locations of its tables, if it shows only a part of them.
        dropped: The metadata file of a scratch table that the probe dropped; empty once the second
            check has searched for it.
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
        """The due time of the second check: servers delete in the background, within minutes."""
        return parse_instant(self.at) + SECOND_CHECK_AFTER

    @property
    def written(self) -> str:
        """The text that the catalog stores."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def read(cls, text: str) -> "ServerVerdict | None":
        """Parses `written`; None if it is invalid."""
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
    """Returns the half-seen locations of a catalog, from its listing or from an earlier probe.

    Another server may answer under the same name now; that does not make the locations safe.
    """
    verdict = verdict_of(config, listing)
    return listing.half_seen or (verdict.half_seen if verdict else ())


def verdict_of(config: Config, listing: CatalogListing) -> ServerVerdict | None:
    """Returns the verdict that a catalog stores; None if its server was never probed."""
    properties: Mapping[str, str] = listing.namespaces.get((config.ledger_namespace,), {})
    return ServerVerdict.read(properties.get(PROBED, ""))


def unmanaged_reason(config: Config, name: str, listing: CatalogListing) -> str:
    """Returns why nothing of a catalog's tables expires or is finalized; empty if they are managed.

    Args:
        config: Has the catalog's type, and the ledger's namespace.
        name: The catalog.
        listing: Its listing.
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
    """Returns whether a pending second check is the only reason not to manage a catalog."""
    verdict = verdict_of(config, listing)
    is_same = verdict is not None and verdict.server == listing.server
    return verdict is not None and is_same and verdict.is_open and not listing.half_seen


_MANAGED = "its tables are managed as those of any catalog"


@dataclass(frozen=True)
class Probed:
    """The result of a probe.

    Attributes:
        catalog: The catalog whose server was probed.
        facts: Questions and answers; empty if only the second check was made.
        verdict: The verdict that the catalog stores.
    """

    catalog: str
    facts: Sequence[ProbedFact]
    verdict: ServerVerdict

    @property
    def waits_until(self) -> str:
        """The due time of the second check; empty if none is needed before tables are managed."""
        return format_instant(self.verdict.due) if self.verdict.is_open else ""

    @property
    def sentence(self) -> str:
        """Describes the consequence, for output."""
        if self.verdict.reason:
            return f"its tables are read, never changed: {self.verdict.reason}"
        if self.verdict.is_open:
            return (
                "its tables are only read until a second check finds a dropped table's files "
                f"untouched: the first run after {self.waits_until} makes it, or this command"
            )
        return _MANAGED


def probe_catalog(context: ReadContext, name: str) -> Probed:
    """Probes the server of a catalog, and stores the verdict in the ledger's namespace.

    It creates a scratch namespace with a table, and drops both again. If a second check is open, it
    makes that one, or reports when it is due.

    Raises:
        UsageInvalid: The catalog does not exist, has no server that writes metadata, or nothing may
            be created in it.
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
    except MeltlineError:  # inconclusive: a new scratch table is a better test than the old one
        decided = former
    if former.dropped and decided != former:
        return Probed(name, (), decided)
    return _first_check(context, name, former.checked)


def probe_notices(context: ReadContext, listings: Mapping[str, CatalogListing]) -> Sequence[str]:
    """Returns why the tables of the hot catalog are only read, if its probe is the reason."""
    hot = context.config.hot
    listing = listings.get(hot)
    if listing is None or listing.half_seen or verdict_of(context.config, listing) is None:
        return []
    reason = unmanaged_reason(context.config, hot, listing)
    return [f"tables of catalog {hot} are only read: {reason}"] if reason else []


def second_check(
    context: ReadContext, listings: Mapping[str, CatalogListing]
) -> Sequence[str] | None:
    """Makes the second check of the hot catalog's server if it is due.

    Returns:
        Notices if it was inconclusive; None if nothing was due.
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
    """Runs the whole probe; `checked` is when this server was last found to keep dropped files."""
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
    """Decides an open verdict. Raises MeltlineError if that is not possible."""
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
