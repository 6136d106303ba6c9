"""Armed: whether anything may be destroyed in the hot catalog.

Each step that destroys asks ledger and catalog, so that a task that is tried again asks again, and
the ledger once more before each batch. Both must have the same person's word, for the warehouse as
it is configured now.
"""

from dataclasses import dataclass

from meltline.app.services import ReadContext
from meltline.config.load import Config
from meltline.domain.clock import NOW
from meltline.domain.errors import NotArmed, NotASandbox
from meltline.domain.safe_text import quote
from meltline.ports import Catalog, CatalogListing, ObjectReader, SwitchLedger

ARMED = "meltline.armed"
"""The namespace property that has the word, beside the epoch."""


@dataclass(frozen=True)
class ArmingCheck:
    """Whether anything may be destroyed, asked anew each time.

    Attributes:
        catalog: The hot one.
        once: Why the run at hand may destroy all the same; empty where nobody has said so.
    """

    config: Config
    switch: SwitchLedger
    catalog: Catalog
    store: ObjectReader
    once: str

    @classmethod
    def of(cls, context: ReadContext) -> "ArmingCheck":
        """For what a step or command is about to do."""
        hot = context.catalogs[context.config.hot]
        return cls(context.config, context.control.switch, hot, context.store, context.once)

    @property
    def warehouse(self) -> str:
        """Where the hot catalog's tables lie."""
        return self.config.catalogs[self.config.hot].warehouse.rstrip("/")

    @property
    def is_sandbox(self) -> bool:
        """Whether the mark of a sandbox arms the catalog, without `meltline arm`."""
        return is_sandbox(self.config, self.store)

    def require(self, listing: CatalogListing | None = None) -> None:
        """Refuses what would destroy.

        Args:
            listing: As `refusal` takes it.

        Raises:
            NotArmed: Nobody has armed the catalog, or not as it is now.
            CatalogUnlistable: The catalog does not say.
        """
        if (refused := self.refusal(listing)) is not None:
            raise refused

    def refusal(self, listing: CatalogListing | None = None) -> NotArmed | None:
        """Why nothing may be destroyed; None where it may. Raises CatalogUnlistable.

        Args:
            listing: What the catalog had when the step began, for those who have asked it. The
                ledger, which whoever disarms tells first, is asked in any case.
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
    """Where the mark of the hot warehouse lies, or would; empty where there is no such place."""
    warehouse = config.catalogs[config.hot].warehouse.rstrip("/")
    return f"{warehouse}/{SANDBOX_MARK}" if warehouse else ""


def is_marked(config: Config, store: ObjectReader) -> bool:
    """Whether the hot warehouse bears the mark."""
    mark = sandbox_mark(config)
    return bool(mark) and store.size(mark) is not None


def is_sandbox(config: Config, store: ObjectReader) -> bool:
    """Whether configuration and warehouse both say that this is a sandbox."""
    return config.sandbox and is_marked(config, store)


def require_sandbox(config: Config, store: ObjectReader, purpose: str) -> None:
    """Allows a simulated clock only in a configured and marked sandbox (docs/configure.md).

    Raises:
        NotASandbox: The configuration or the warehouse does not say that it is one.
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
    """What is missing for a simulated clock, in the order in which it can be done."""
    steps = [] if config.sandbox else [f"write `sandbox: true` in {config.path.name}"]
    if not marked:
        steps.append(
            f"run `meltline init --sandbox` once without {NOW}: it marks an empty warehouse"
        )
    return f"{', then '.join(steps)}; elsewhere unset {NOW} and use the real clock"
