"""Credentials that a catalog vends for the files of its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class VendedCredentials:
    """What opens the objects under one prefix, as a catalog has answered.

    Attributes:
        prefix: A location; what lies under it, and under no longer prefix, is opened by these.
        properties: In the words of a catalog's properties, such as `s3.session-token`. They win
            over the configured ones.
        expires_at: When they end; None where the catalog has not said.
    """

    prefix: str
    properties: Mapping[str, str] = field(repr=False)
    expires_at: datetime | None = None


class CredentialVendor(Protocol):
    """Asks a catalog for credentials anew. Must be picklable: executors renew them too."""

    def __call__(self, location: str) -> Sequence[VendedCredentials]:
        """All that the catalog vends for the table whose location, or prefix, that is.

        Raises:
            MeltlineError: It vends none any more, or does not answer.
        """
        ...
