"""Checks whether the hot catalog is armed, so that a run may destroy anything in it.

Every destructive step asks ledger and catalog, so a retried task asks again; the ledger is also
asked before each batch. Both must have the same arming record, for the warehouse as it is
configured now.
"""

from dataclasses import dataclass

from meltline.app.services import ReadContext
from meltline.config.load import Config
from meltline.domain.clock import NOW
from meltline.domain.errors import NotArmed, NotASandbox
from meltline.domain.safe_text import quote
from meltline.ports import Catalog, CatalogListing, ObjectReader, SwitchLedger

ARMED = "meltline.armed"
"""The namespace property with the arming record, beside the epoch."""


@dataclass(frozen=True)
class ArmingCheck:
    """Checks arming; nothing is cached.

    Attributes:
        catalog: The hot catalog.
        once: Why the current run may destroy in spite of it; empty without such an override.
    """

    config: Config
    switch: SwitchLedger
    catalog: Catalog
    store: ObjectReader
    once: str

    @classmethod
    def of(cls, context: ReadContext) -> "ArmingCheck":
        """Builds the check for a step or command."""
        hot = context.catalogs[context.config.hot]
        return cls(context.config, context.control.switch, hot, context.store, context.once)

    @property
    def warehouse(self) -> str:
        """The location of the hot catalog's tables."""
        return self.config.catalogs[self.config.hot].warehouse.rstrip("/")

    @property
    def is_sandbox(self) -> bool:
        """Whether a sandbox mark arms the catalog, without `meltline arm`."""
        return is_sandbox(self.config, self.store)

    def require(self, listing: CatalogListing | None = None) -> None:
        """Refuses a destructive operation in a catalog that is not armed.

        Args:
            listing: See `refusal`.

        Raises:
            NotArmed: The catalog is not armed, or not as it is configured now.
            CatalogUnlistable: The catalog does not answer.
        """
        if (refused := self.refusal(listing)) is not None:
            raise refused

    def refusal(self, listing: CatalogListing | None = None) -> NotArmed | None:
        """Returns why nothing may be destroyed; None if it is allowed. Raises CatalogUnlistable.

        Args:
            listing: The catalog's listing from the beginning of the step, if the caller has one.
                The ledger, which a disarm changes first, is asked in any case.
        """
        if self.once or self.is_sandbox:
            return None
        missing = self._missing(listing)
        if not missing:
            return None
        hot = self.config.hot
        return NotArmed(
            f"catalog {hot} is not armed",
            object=hot,
            expected=f"an armed catalog, with warehouse {self.warehouse}",
            found=missing,
            next=f"look at a dry run, then `meltline arm {quote(hot)} --reason TEXT`; "
            "or give this one run its word: `--once REASON`",
        )

    def _missing(self, listing: CatalogListing | None) -> str:
        arming = self.switch.arming()
        if arming is None:
            return "nobody has armed it"
        namespaces = (listing or self.catalog.listing()).namespaces
        stated = namespaces.get((self.config.ledger_namespace,), {}).get(ARMED, "")
        return arming.missing(self.config.hot, self.warehouse, stated)


SANDBOX_MARK = ".meltline-sandbox"


def sandbox_mark(config: Config) -> str:
    """Returns the path of the sandbox mark in the hot warehouse; empty if it has no location."""
    warehouse = config.catalogs[config.hot].warehouse.rstrip("/")
    return f"{warehouse}/{SANDBOX_MARK}" if warehouse else ""


def is_marked(config: Config, store: ObjectReader) -> bool:
    """Returns whether the hot warehouse has the sandbox mark."""
    mark = sandbox_mark(config)
    return bool(mark) and store.size(mark) is not None


def is_sandbox(config: Config, store: ObjectReader) -> bool:
    """Returns whether both configuration and warehouse declare a sandbox."""
    return config.sandbox and is_marked(config, store)


def require_sandbox(config: Config, store: ObjectReader, purpose: str) -> None:
    """Allows a simulated clock only in a configured and marked sandbox (docs/configure.md).

    Raises:
        NotASandbox: The configuration or the warehouse does not declare one.
    """
    marked = is_marked(config, store)
    if not (config.sandbox and marked):
        raise NotASandbox(
            f"{purpose} is for sandboxes only",
            object=config.catalogs[config.hot].warehouse,
            expected=f"sandbox: True in {config.path.name}, and {SANDBOX_MARK} in the warehouse",
            found=f"sandbox: {config.sandbox}, the mark is {'there' if marked else 'missing'}",
            next=_way_into_sandbox(config, marked=marked),
        )


def _way_into_sandbox(config: Config, *, marked: bool) -> str:
    """Returns the missing steps towards a simulated clock, in order."""
    steps = [] if config.sandbox else [f"write `sandbox: true` in {config.path.name}"]
    if not marked:
        steps.append(
            f"run `meltline init --sandbox` once without {NOW}: it marks an empty warehouse"
        )
    return f"{', then '.join(steps)}; elsewhere unset {NOW} and use the real clock"
