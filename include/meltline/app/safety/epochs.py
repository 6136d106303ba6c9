"""Raises the epoch: the catalog learns that something was decided, or is about to be destroyed.

The ledger notes the new epoch, the catalog is set to it, for a destruction the storage roots are
marked with it, and the ledger confirms it. What holds back,
such as a stop, is stored before that, and what allows, such as an approval, after it. So whatever
backup of the ledger comes back: either it has what holds back, or it does not know the epoch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from meltline.app.safety.arming import ARMED, ArmingCheck
from meltline.app.safety.audit import audit
from meltline.app.safety.installations import mark_roots, require_own_roots, take_over
from meltline.app.safety.preconditions import standing_epoch
from meltline.app.services import ReadContext
from meltline.domain.epochs import ADOPTED, EPOCH, GENERATION, Epoch, newest_confirmed, number_in
from meltline.domain.errors import CatalogUnlistable, CommitConflict, MeltlineError, SetupMissing
from meltline.ports import CatalogListing
from meltline.retries import until_done

STOPPED = "meltline.stopped"
"""The namespace property that says who has stopped everything, for a ledger that is adopted."""

_ATTEMPTS = 20  # of all that decide something at the same time


def raise_epoch(
    context: ReadContext,
    why: str,
    updates: Mapping[str, str] | None = None,
    removals: Sequence[str] = (),
    *,
    marks_roots: bool = False,
) -> None:
    """Begins an epoch: one compare-and-set of the hot catalog, and of each storage root.

    Args:
        context: Where the ledger and the catalog are.
        why: What is decided, or about to be destroyed.
        updates: Properties of the ledger's namespace that are set in the same step.
        removals: Such as are removed.
        marks_roots: Whether something is to be destroyed: the storage roots are marked then.

    Raises:
        LedgerOutOfStep: The ledger is not the one that the catalog or a storage root belongs to.
        CatalogUnlistable: The catalog does not answer.
        CatalogReadOnly: It cannot be changed.
        CommitConflict: Others raised it first each time.
    """
    confirmed = [epoch for epoch in context.control.epochs.since() if epoch.confirmed]
    newest = max(confirmed, key=lambda epoch: epoch.number, default=None)
    base = None if newest is None else newest.written

    def attempt() -> bool | None:
        nonlocal base
        epoch = _next_epoch(context, why)
        expected = {
            EPOCH: base,
            GENERATION: str(context.control.database.generation()),
        }
        try:
            _set_properties(context, {EPOCH: epoch.written, **(updates or {})}, removals, expected)
        except CommitConflict:
            base = _caught_up(context)
            return None
        if newest_confirmed(context.control.epochs.since()) > epoch.number:
            base = epoch.written  # what cannot compare and set may have lost a newer one to it
            return None
        if marks_roots:
            mark_roots(context, epoch)
        context.control.epochs.confirm(epoch.nonce)
        return True

    if not until_done(attempt, attempts=_ATTEMPTS):
        raise _restless(context)


def _restless(context: ReadContext) -> CommitConflict:
    return CommitConflict(
        f"others raised the epoch first each of {_ATTEMPTS} times",
        object=f"namespace {context.config.ledger_namespace}",
        expected="a quiet moment",
        found="a newer epoch each time",
        next="run the command again",
    )


def _caught_up(context: ReadContext) -> str | None:
    """What the catalog says now. An epoch that was never confirmed is: a process has died.

    It is compared in the catalog's own words: what the ledger keeps of an epoch is for people, and
    a catalog that spells it otherwise could never be set again.
    """
    config = context.config
    listing = context.catalogs[config.hot].listing()
    epoch = standing_epoch(context, listing)
    if epoch is not None and not epoch.confirmed:
        context.control.epochs.confirm(epoch.nonce)
    return listing.namespaces.get((config.ledger_namespace,), {}).get(EPOCH)


def _next_epoch(context: ReadContext, why: str, above: int = 0) -> Epoch:
    """An epoch that the ledger has noted, above all that it knows of and this number."""
    numbers = [epoch.number for epoch in context.control.epochs.since()]
    number, now = max([above, *numbers]) + 1, context.clock.now()
    epoch = Epoch(number, uuid4().hex, why, context.who, now)
    context.control.epochs.add(epoch)
    return epoch


def _set_properties(
    context: ReadContext,
    updates: Mapping[str, str],
    removals: Sequence[str],
    expected: Mapping[str, str | None],
) -> None:
    """Sets properties of the ledger's namespace. What a driver says of it is put in our words."""
    config = context.config
    try:
        context.editors[config.hot].set_namespace_properties(
            (config.ledger_namespace,), updates, removals, expected=expected
        )
    except MeltlineError:
        raise
    except Exception as failure:
        raise CatalogUnlistable(
            f"catalog {config.hot} does not answer",
            object=config.hot,
            expected=f"a catalog in which namespace {config.ledger_namespace} can be changed",
            found=type(failure).__name__,
            next="look at the catalog, and run the command again",
        ) from failure


def adopt_epoch(context: ReadContext, properties: Mapping[str, str], generation: int) -> None:
    """Has the catalog and the storage roots belong to this ledger; nothing is armed then.

    Another installation in the same catalog or roots is refused from then on.

    Args:
        context: Where they are.
        properties: The properties of the ledger's namespace as a person has seen them.
        generation: The new generation, higher than either had.

    Raises:
        CommitConflict: Something else stands there by now; nothing was adopted.
        SetupMissing: The catalog has not kept what it answered yes to; nothing was adopted.
    """
    above = number_in(properties.get(EPOCH, ""))
    epoch = _next_epoch(context, f"{ADOPTED} {generation}", above)
    expected = {key: properties.get(key) for key in (EPOCH, GENERATION)}
    _set_properties(context, {EPOCH: epoch.written, GENERATION: str(generation)}, [ARMED], expected)
    _require_kept(context, generation)
    take_over(context, epoch, [ARMED])
    context.control.database.set_generation(generation)
    context.control.epochs.confirm(epoch.nonce)


def _require_kept(context: ReadContext, generation: int) -> None:
    """Looks again: a ledger whose generation the catalog does not have refuses everything."""
    config = context.config
    listing = context.catalogs[config.hot].listing()
    kept = listing.namespaces.get((config.ledger_namespace,), {})
    if kept.get(GENERATION) != str(generation) or EPOCH not in kept:
        raise SetupMissing(
            f"catalog {config.hot} has not kept what it answered yes to",
            object=f"namespace {config.hot}.{config.ledger_namespace}",
            expected=f"the properties {GENERATION} = {generation} and {EPOCH}",
            found=", ".join(sorted(kept)) or "no properties",
            next="use a catalog that keeps the properties of namespaces, or look at its log; then "
            "run `meltline init` again",
        )


@dataclass
class RunEpoch:
    """The epoch that a run begins before it destroys anything; one for all of its steps.

    Whatever destroys asks here before each batch: this is where an unarmed catalog refuses.

    Attributes:
        listing: What the step knows the hot catalog to have; None where that is to be asked anew.
    """

    context: ReadContext
    listing: Callable[[], CatalogListing] | None = None
    _is_raised: bool = False

    def require(self) -> None:
        """Raises it, unless this run has.

        Raises:
            NotArmed: The catalog is not armed, or not any more.
            MeltlineError: As `raise_epoch` does; nothing may go then.
        """
        self.require_armed()
        require_own_roots(self.context)
        if self._is_raised:
            return
        run = self.context.run_id
        why = f"run {run}" if run else "a step by itself"
        if not (run and self.context.control.epochs.has(why)):
            raise_epoch(self.context, why, marks_roots=True)
            if self.context.once:
                audit(self.context, "destroy once", self.context.config.hot, self.context.once)
        self._is_raised = True

    def require_armed(self) -> None:
        """Only asks. Raises as `ArmingCheck.require` does."""
        ArmingCheck.of(self.context).require(self.listing() if self.listing else None)
