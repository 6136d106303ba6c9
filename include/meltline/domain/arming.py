"""Arming: an operator's approval, given once, of destructive scheduled runs in a catalog.

It is recorded in the control ledger and in the catalog, and is valid only while both have it.
`app.safety.arming` writes and checks the records.
"""

from dataclasses import dataclass
from datetime import datetime

from meltline.domain.units import format_instant

_LONGEST_REASON = 500  # a SQL catalog's properties take a thousand characters


@dataclass(frozen=True)
class Arming:
    """The approval of destructive runs in one catalog with one warehouse.

    Attributes:
        catalog: Its name in `meltline.yaml`.
        warehouse: The warehouse at that time: the approval is invalid for any other.
        nonce: A random value, the approval's identity.
        who: The operator.
        reason: The operator's reason.
        at: When it was given.
    """

    catalog: str
    warehouse: str
    nonce: str
    who: str
    reason: str
    at: datetime

    @property
    def written(self) -> str:
        """Returns the text for the catalog: Meltline reads its nonce, the rest is for people."""
        reason = self.reason[:_LONGEST_REASON]
        return f"{self.nonce} {format_instant(self.at)} {self.who}: {reason}"

    def is_in(self, stated: str) -> bool:
        """Returns whether a catalog's recorded text is that of this approval."""
        return stated.split(" ", maxsplit=1)[0] == self.nonce

    def missing(self, catalog: str, warehouse: str, stated: str) -> str:
        """Returns why it is invalid for a catalog; empty if it is valid.

        Args:
            catalog: The catalog's name.
            warehouse: The catalog's current warehouse.
            stated: The text recorded in the catalog.
        """
        if self.catalog != catalog:
            return f"catalog {self.catalog} is armed"
        if self.warehouse != warehouse:
            return f"it was armed with warehouse {self.warehouse}"
        if not self.is_in(stated):
            return "the control ledger says that it is, the catalog does not"
        return ""
