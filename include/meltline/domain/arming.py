"""Arming: a person's word, given once, that scheduled runs may destroy in a catalog.

It stands in the control ledger and in the catalog, and counts while both have it.
"""

from dataclasses import dataclass
from datetime import datetime

from meltline.domain.units import format_instant

_LONGEST_REASON = 500  # a SQL catalog's properties take a thousand characters


@dataclass(frozen=True)
class Arming:
    """A person's word for one catalog with one warehouse.

    Attributes:
        catalog: Its name in `meltline.yaml`.
        warehouse: Where its tables lay then: no word for any other place.
        nonce: Drawn at random, its identity.
        who: Who gave it.
        reason: Why.
        at: When.
    """

    catalog: str
    warehouse: str
    nonce: str
    who: str
    reason: str
    at: datetime

    @property
    def written(self) -> str:
        """As the catalog has it: for Meltline, the first word; the rest is for people."""
        reason = self.reason[:_LONGEST_REASON]
        return f"{self.nonce} {format_instant(self.at)} {self.who}: {reason}"

    def is_in(self, stated: str) -> bool:
        """Whether a catalog that says this has it."""
        return stated.split(" ", maxsplit=1)[0] == self.nonce

    def missing(self, catalog: str, warehouse: str, stated: str) -> str:
        """Why it does not count for a catalog; empty where it does.

        Args:
            catalog: Its name.
            warehouse: Where its tables lie today.
            stated: What the catalog itself says.
        """
        if self.catalog != catalog:
            return f"catalog {self.catalog} is armed"
        if self.warehouse != warehouse:
            return f"it was armed with warehouse {self.warehouse}"
        if not self.is_in(stated):
            return "the control ledger says that it is, the catalog does not"
        return ""
