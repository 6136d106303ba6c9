"""Classifies errors of a store's client: no credentials, expired credentials, no bucket, others.

All modules that send requests through obstore use it, so that an error names its next step.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from obstore.exceptions import BaseError

from meltline.domain.errors import CredentialsExpired, CredentialsMissing, StoreRefused
from meltline.domain.redaction import discreet

_NO_KEYS = re.compile(
    r"169\.254\.1\d+\.2|169\.254\.169\.254|/latest/(?:api/token|meta-data)|/computeMetadata/|"
    r"/metadata/identity|NoCredentials"
)
"""Addresses where a client requests the machine's credentials if it was given no others."""
_ENDED = re.compile(
    r"ExpiredToken|RequestExpired|TokenRefreshRequired|InvalidAuthenticationInfo|"
    r"Signature not valid in the specified time frame|invalid_grant|token.{0,20}expired",
    re.IGNORECASE,
)
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|specified (?:bucket|container) does not")
_KEYS = {
    "S3": ("s3.access-key-id", "AWS_ACCESS_KEY_ID"),
    "GCS": ("gcs.oauth2.token", "GOOGLE_APPLICATION_CREDENTIALS"),
    "MicrosoftAzure": ("adls.account-key or adls.sas-token", "AZURE_STORAGE_KEY"),
}
"""The settings of a store's keys: in the configuration, and in the environment."""


class _StoreErrorKind(NamedTuple):
    """The kind of an error.

    Attributes:
        error: The class to raise.
        reason: The problem, without secrets.
        expected: The expected condition.
        next: The operator's next step.
    """

    error: type[StoreRefused]
    reason: str
    expected: str = "an answer from the store"
    next: str = "check the store, its address and the credentials in meltline.yaml"


def _kind_of(error: Exception) -> _StoreErrorKind:
    reason = _words_of(error)
    if _ENDED.search(str(error)):
        return _StoreErrorKind(
            CredentialsExpired,
            f"the credentials have ended: {reason}",
            "credentials that are still good",
            "renew the session token, and run again: what was not done is done then",
        )
    if _NO_KEYS.search(reason):
        keys = next((each for store, each in _KEYS.items() if f" {store} " in reason), ("keys",))
        return _StoreErrorKind(
            CredentialsMissing,
            f"no credentials: {' and '.join(keys)} are not set, and this machine gave none",
            f"{', or '.join(keys)}; or a role of this machine",
            "give the catalog these properties in meltline.yaml, or set the variables",
        )
    if _NO_BUCKET.search(reason):
        return _StoreErrorKind(
            StoreRefused,
            "there is no such bucket",
            "a bucket (container) of that name",
            "make it, or correct the `warehouse` in meltline.yaml",
        )
    return _StoreErrorKind(StoreRefused, reason)


def _words_of(error: Exception) -> str:
    """Returns the client's message without the queries of addresses, which contain signatures."""
    message = str(error).partition("\n\nDebug source")[0]
    return discreet(re.sub(r"(https?://[^\s?]*)\?\S*", r"\1", message))[:500]


def reason_of(error: Exception) -> str:
    """Returns the reason in one sentence, without secrets."""
    return _kind_of(error).reason


@contextmanager
def refusing(action: str, path: str) -> Iterator[None]:
    """Converts a client's error to one of ours; `action` and `path` name the attempt.

    Raises:
        FileNotFoundError: There is no such object.
        StoreRefused: The store failed otherwise.
    """
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and action != "write":
            raise FileNotFoundError(path) from None
        kind = _kind_of(error)
        raise kind.error(
            f"cannot {action} {path}: {kind.reason}",
            object=path,
            expected=kind.expected,
            found=kind.reason,
            next=kind.next,
        ) from None  # the client's message may contain a signed address
