"""Protocol of vended credentials: temporary keys that a catalog issues for a table's files.

`adapters/object_store` renews them through it; `adapters/catalogs` implements it. It is a port so
that the object store does not import a catalog's client.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class VendedCredentials:
    """Credentials for the objects under one prefix, as a catalog vended them.

    Attributes:
        prefix: A location; the longest prefix of a path decides which credentials apply.
        properties: Under the names of catalog properties, such as `s3.session-token`. They
            override the configured ones.
        expires_at: When they expire; None if the catalog did not report it.
    """

    prefix: str
    properties: Mapping[str, str] = field(repr=False)
    expires_at: datetime | None = None


class CredentialVendor(Protocol):
    """Requests fresh credentials from a catalog. Must be picklable: executors renew them too."""

    def __call__(self, location: str) -> Sequence[VendedCredentials]:
        """Returns all credentials that the catalog vends for the table at a location or prefix.

        Raises:
            MeltlineError: It no longer vends any, or does not answer.
        """
        ...
