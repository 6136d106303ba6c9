"""What a server behind a catalog does, found out by asking it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ProbedFact:
    """One thing that a server does, or does not.

    Attributes:
        question: What was asked, in words.
        is_so: Whether it does.
        detail: What it answered; empty where there is no more to say.
        is_needed: Whether tables behind it can only be managed where it does.
        half_seen: Where it keeps what it shows only a part of: nothing there may be deleted.
    """

    question: str
    is_so: bool
    detail: str = ""
    is_needed: bool = False
    half_seen: tuple[str, ...] = ()


class ServerProbe(Protocol):
    """Tries a server out, in a namespace of its own that is gone afterwards."""

    def facts(self) -> Sequence[ProbedFact]:
        """What was asked and answered, in this order.

        It stops where a needed fact is not so: what comes after builds on it.
        """
        ...

    def drop_scratch(self) -> str:
        """Drops a scratch table and leaves its files, for a server that deletes them later.

        Returns:
            The metadata file of the table.
        """
        ...

    def deleted_since(self, metadata_location: str) -> bool:
        """Whether the server has deleted the dropped table's files. Leaves them as they are.

        Raises:
            MeltlineError: That cannot be told now.
        """
        ...

    @property
    def server(self) -> str:
        """What tells this server from another, as `CatalogListing.server`."""
        ...
