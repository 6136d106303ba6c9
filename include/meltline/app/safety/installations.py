"""Detects other installations of Meltline that manage the same warehouse.

Preconditions, epochs and `init` call it. Each storage root has a mark: the epoch of the run that
last destroyed something. A ledger that does not know that epoch belongs to a copied or restored
installation. In the hot catalog, each namespace with a generation belongs to an installation.
"""

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from meltline.app.services import ReadContext
from meltline.domain.epochs import EPOCH, GENERATION, Epoch, EpochNote, number_in
from meltline.domain.errors import CommitConflict, LedgerOutOfStep, UsageInvalid
from meltline.ports import CatalogListing
from meltline.retries import until_done

_MARK = ".meltline-installation"
_SUPERSEDED = "meltline.superseded-by"
_ATTEMPTS = 20  # enough for all runs of one installation that begin concurrently


@dataclass(frozen=True)
class Installation:
    """An installation that our ledger does not know.

    Attributes:
        place: The storage root or namespace that names it.
        note: Its last epoch there; empty if it had none.
    """

    place: str
    note: EpochNote

    @property
    def refusal(self) -> LedgerOutOfStep:
        """Returns the error for a destructive step in its warehouse."""
        return LedgerOutOfStep(
            "another installation manages this warehouse",
            object=self.place,
            expected="an epoch that this control ledger knows",
            found=f"installation {self.note.id}, {self.note.activity}",
            next="stop one of the two for good: a copy needs a warehouse of its own, and must not "
            "be armed here. If the other one has ended, `meltline init --adopt` takes over",
        )


def require_alone(context: ReadContext, listing: CatalogListing | None = None) -> None:
    """Refuses if another installation manages the catalog or one of the storage roots.

    Args:
        context: The configuration, the ledger and the store.
        listing: An earlier listing of the hot catalog, if the caller has one.

    Raises:
        LedgerOutOfStep: Another installation manages it; the error names that one.
        StoreRefused: The mark of a root cannot be read.
    """
    for installation in other_installations(context, listing):
        raise installation.refusal


def require_own_roots(context: ReadContext) -> None:
    """Refuses if another installation has marked a storage root. Raises as `require_alone`."""
    for installation in _in_roots(context):
        raise installation.refusal


def other_installations(
    context: ReadContext, listing: CatalogListing | None = None
) -> Iterator[Installation]:
    """Yields the other installations that the hot catalog and the storage roots name."""
    config = context.config
    shown = listing or context.catalogs[config.hot].listing()
    for namespace, properties in shown.namespaces.items():
        if GENERATION in properties and namespace != (config.ledger_namespace,):
            place = f"namespace {config.hot}.{'.'.join(namespace)}"
            yield Installation(place, EpochNote(properties.get(EPOCH, "")))
    yield from _in_roots(context)


def _in_roots(context: ReadContext) -> Iterator[Installation]:
    for root in context.config.roots:
        stated = _stated(context, root)
        if stated is not None and not _knows(context, stated.decode(errors="replace")):
            yield Installation(root, EpochNote(stated.decode(errors="replace")))


def mark_of(root: str) -> str:
    """Returns the object that marks a storage root."""
    return f"{root.rstrip('/')}/{_MARK}"


def _stated(context: ReadContext, root: str) -> bytes | None:
    """Reads the mark of a root; None where it has none."""
    try:
        return context.store.read(mark_of(root))
    except FileNotFoundError:
        return None


def _knows(context: ReadContext, stated: str) -> bool:
    epochs = context.control.epochs.since(number_in(stated))
    return any(epoch.is_at(stated) for epoch in epochs)


def require_typed(context: ReadContext, typed: str) -> None:
    """Refuses to replace another installation unless an operator has typed its ids.

    It has several ids if catalog and roots have different epochs, as after a run that was killed.

    Args:
        context: The configuration, the ledger and the store.
        typed: The ids, separated by commas.

    Raises:
        UsageInvalid: An id is missing; the error has the ids and the last activity.
    """
    installations = list(other_installations(context))
    ids = sorted({installation.note.id for installation in installations})
    if missing := [one for one in installations if one.note.id not in typed.split(",")]:
        raise UsageInvalid(
            f"another installation manages this warehouse: {missing[0].note.activity}",
            object=missing[0].place,
            expected=f"`--installation {','.join(ids)}`, typed by somebody who knows that it "
            "has ended",
            found=typed or "no --installation",
            next="make sure that it never runs again; then type its id",
        )


def take_over(context: ReadContext, epoch: Epoch, removals: Sequence[str]) -> None:
    """Makes this ledger the only one of its warehouse: all others are refused from then on.

    Args:
        context: Has the catalog and the roots.
        epoch: The noted epoch; the roots are marked with it.
        removals: Properties that other ledgers' namespaces lose besides their epoch.

    Raises:
        CommitConflict: The other installation changed something concurrently.
        StoreRefused: A root cannot be read or written.
    """
    hot = context.config.hot
    for namespace, properties in context.catalogs[hot].listing().namespaces.items():
        if GENERATION in properties and namespace != (context.config.ledger_namespace,):
            context.editors[hot].set_namespace_properties(
                namespace,
                {_SUPERSEDED: epoch.written},
                [GENERATION, EPOCH, *removals],
                expected={key: properties.get(key) for key in (GENERATION, EPOCH)},
            )
    for root in context.config.roots:
        if not context.writer.swap(mark_of(root), _text(epoch), _stated(context, root)):
            raise _restless(root)


def mark_roots(context: ReadContext, epoch: Epoch) -> None:
    """Marks each storage root with an epoch, unless it has a later one of this ledger.

    Raises:
        LedgerOutOfStep: Another installation has marked it.
        CommitConflict: Concurrent runs marked it first in every attempt.
        StoreRefused: It cannot be read or written.
    """
    for root in context.config.roots:
        if not until_done(partial(_mark_root, context, root, epoch), attempts=_ATTEMPTS):
            raise _restless(root)


def _restless(root: str) -> CommitConflict:
    return CommitConflict(
        "others marked the storage root first each time",
        object=root,
        expected="a quiet moment",
        found="a newer mark each time",
        next="run the command again",
    )


def _text(epoch: Epoch) -> bytes:
    return f"{epoch.written} on {platform.node()}".encode()


def _mark_root(context: ReadContext, root: str, epoch: Epoch) -> bool | None:
    seen = _stated(context, root)
    stated = (seen or b"").decode(errors="replace")
    if seen is not None and not _knows(context, stated):
        raise Installation(root, EpochNote(stated)).refusal
    if number_in(stated) >= epoch.number:
        return True
    return context.writer.swap(mark_of(root), _text(epoch), seen) or None
