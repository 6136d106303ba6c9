"""Protocol of a server probe: tests the behaviour of a catalog's server by requests.

`app/safety` calls it; `adapters/catalogs` implements it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ProbedFact:
    """One tested behaviour of a server.

    Attributes:
        question: The behaviour, as a question.
        is_so: Whether the server behaves so.
        detail: The server's answer; empty if there is no more to say.
        is_needed: Whether tables behind it can only be managed if it does.
        half_seen: Locations that it shows only a part of: nothing there may be deleted.
    """

    question: str
    is_so: bool
    detail: str = ""
    is_needed: bool = False
    half_seen: tuple[str, ...] = ()


class ServerProbe(Protocol):
    """Tests a server in a scratch namespace that is removed afterwards."""

    def facts(self) -> Sequence[ProbedFact]:
        """Returns each question with its answer, in the order of the tests.

        It stops at a needed behaviour that is missing: the later tests depend on it.
        """
        ...

    def drop_scratch(self) -> str:
        """Drops a scratch table and leaves its files, for a server that deletes them later.

        Returns:
            The metadata file of the table.
        """
        ...

    def deleted_since(self, metadata_location: str) -> bool:
        """Returns whether the server has deleted the dropped table's files; changes nothing.

        Raises:
            MeltlineError: It is unknown at the moment.
        """
        ...

    @property
    def server(self) -> str:
        """Distinguishes this server from others, as `CatalogListing.server` does."""
        ...
