"""Raises the epoch: records in the catalog that a decision was made, or files will be destroyed.

Decisions and destructive steps call it. The ledger notes the new epoch, then the catalog is set to
it. Before a destruction, the storage roots are marked with it too. Then the ledger confirms it. A
decision that restricts, such as a stop, is stored before that; one that permits, such as an
approval, is stored after it. A restored backup of the ledger therefore either has the restriction,
or does not know the catalog's epoch and is refused.
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
"""The namespace property that names who has stopped everything, for a ledger that is adopted."""

_ATTEMPTS = 20  # enough for all concurrent decisions


def raise_epoch(
    context: ReadContext,
    why: str,
    updates: Mapping[str, str] | None = None,
    removals: Sequence[str] = (),
    *,
    marks_roots: bool = False,
) -> None:
    """Begins an epoch with one compare-and-swap of the hot catalog, and of each storage root.

    Args:
        context: Has the ledger and the catalog.
        why: The decision, or the destruction that follows.
        updates: Properties of the ledger's namespace that are set in the same step.
        removals: Properties that are removed in it.
        marks_roots: Whether files will be destroyed: the storage roots are then marked.

    Raises:
        LedgerOutOfStep: The catalog or a storage root belongs to another ledger.
        CatalogUnlistable: The catalog does not answer.
        CatalogReadOnly: The catalog cannot be changed.
        CommitConflict: Concurrent commands raised the epoch first in every attempt.
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
            base = epoch.written  # without compare-and-swap, a newer one may have been lost
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
    """Returns the catalog's current epoch, and confirms it if a process died before it could.

    The comparison uses the catalog's own text. The ledger's text of an epoch is for display, and a
    catalog that spells it differently could never be set again.
    """
    config = context.config
    listing = context.catalogs[config.hot].listing()
    epoch = standing_epoch(context, listing)
    if epoch is not None and not epoch.confirmed:
        context.control.epochs.confirm(epoch.nonce)
    return listing.namespaces.get((config.ledger_namespace,), {}).get(EPOCH)


def _next_epoch(context: ReadContext, why: str, above: int = 0) -> Epoch:
    """Notes a new epoch in the ledger, with a number above `above` and all known ones."""
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
    """Sets properties of the ledger's namespace, and translates driver errors."""
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
    """Assigns the catalog and the storage roots to this ledger; nothing is armed afterwards.

    Another installation in the same catalog or roots is refused from then on.

    Args:
        context: Has the catalog and the roots.
        properties: The properties of the ledger's namespace, as the operator saw them.
        generation: The new generation, higher than either had.

    Raises:
        CommitConflict: The properties have changed since; nothing was adopted.
        SetupMissing: The catalog did not keep a change that it acknowledged; nothing was adopted.
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
    """Verifies the generation in the catalog: without it the ledger would refuse everything."""
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
    """The epoch that a run begins before it first destroys anything; one for all of its steps.

    Destructive steps call it before each batch: here an unarmed catalog is refused.

    Attributes:
        listing: The step's listing of the hot catalog; None to list it each time.
    """

    context: ReadContext
    listing: Callable[[], CatalogListing] | None = None
    _is_raised: bool = False

    def require(self) -> None:
        """Raises the epoch, unless this run has done so.

        Raises:
            NotArmed: The catalog is not armed, or not any more.
            MeltlineError: As `raise_epoch` does; nothing may be deleted then.
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
        """Checks arming only. Raises as `ArmingCheck.require` does."""
        ArmingCheck.of(self.context).require(self.listing() if self.listing else None)
