"""Classifies catalog connection errors: credentials, warehouse, database, network, or other.

The catalog adapters raise what it builds, so that each error tells the operator the next step.
"""

import re
from typing import NamedTuple

from meltline.domain.errors import CatalogUnlistable
from meltline.domain.redaction import cause

_LONGEST = 300


class _Kind(NamedTuple):
    """One kind of connection error, recognized by its text.

    Attributes:
        words: Pattern in the error's text.
        reason: Its meaning.
        next: The operator's next step.
    """

    words: "re.Pattern[str]"
    reason: str
    next: str


_KINDS = (
    _Kind(
        re.compile(
            r"NoCredentials|Unable to locate credentials|PartialCredentials|no password supplied|"
            r"UnauthorizedError|NotAuthorizedException|MissingAuthenticationToken"
        ),
        "no credentials, or half of them, were given",
        "give the catalog its keys in meltline.yaml, or set the variables: glue.access-key-id and "
        "glue.secret-access-key (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) for glue, credential or "
        "token for rest, user and password in the uri for sql",
    ),
    _Kind(
        re.compile(
            r"password authentication failed|OAuthError|ForbiddenError|AuthorizationExpired|"
            r"AccessDenied|UnrecognizedClient|InvalidSignature|ExpiredToken|permission denied"
        ),
        "its credentials are refused",
        "correct the catalog's credentials in meltline.yaml, or give them the right to list it",
    ),
    _Kind(
        re.compile(r"NoSuchWarehouse|NotFoundException|[Ww]arehouse .{0,120}(not|exist|unknown)"),
        "it knows no such warehouse",
        "make the warehouse there, or correct `warehouse` and `uri` of the catalog in "
        "meltline.yaml",
    ),
    _Kind(
        re.compile(r'database "[^"]*" does not exist'),
        "there is no such database",
        "create the database (Postgres: `createdb NAME`), or correct the catalog's `uri`",
    ),
    _Kind(
        re.compile(
            r"Connection ?(Error|refused)|ConnectTimeout|EndpointConnectionError|"
            r"TTransportException|connection failed|could not translate host name"
        ),
        "nobody answers at its address",
        "start it, or correct the catalog's `uri` in meltline.yaml",
    ),
)


def no_answer(catalog: str, expected: str, error: BaseException) -> CatalogUnlistable:
    """Builds the error of a catalog that could not be listed; nothing is deleted anywhere then."""
    words = cause(error)
    known = next((kind for kind in _KINDS if kind.words.search(words)), None)
    shown = " ".join(words.split())[:_LONGEST]
    reason = f"{known.reason}: {shown}" if known else shown
    return unlistable(catalog, expected, reason, known.next if known else "look at the catalog")


def unlistable(catalog: str, expected: str, reason: str, next: str) -> CatalogUnlistable:
    """Builds the error for any reason; `next` is the operator's next step."""
    return CatalogUnlistable(
        f"catalog {catalog} could not be listed completely",
        object=catalog,
        expected=expected,
        found=reason,
        next=f"{next}; nothing is deleted anywhere until it can be listed",
    )
