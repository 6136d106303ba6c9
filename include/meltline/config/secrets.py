"""Which words of `meltline.yaml` may be shown: the one place that says so.

A catalog takes any property, and what a client of tomorrow calls its key nobody knows today. So a
property of a catalog is a secret unless it is named here.
"""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

OPEN_PROPERTIES = (
    "warehouse",
    "adls.account-host",
    "adls.account-name",
    "cache-enabled",
    "catalog-impl",
    "client.region",
    "gcs.project-id",
    "gcs.service.host",
    "io-impl",
    "jdbc.busy_timeout",
    "jdbc.schema-version",
    "jdbc.user",
    "py-io-impl",
    "s3.anonymous",
    "s3.connect-timeout",
    "s3.endpoint",
    "s3.force-virtual-addressing",
    "s3.path-style-access",
    "s3.region",
    "s3.request-timeout",
    "s3.retry.num-retries",
)
"""Properties of a catalog that open no door. All others are secrets."""

_LOGIN = r"://[^/@\s:]*:[^/@\s]+@"
"""A user and a password in an address, wherever it stands."""
_ALWAYS = r"secret|password|token|access[.]?key"
"""What Spark itself takes for a secret, in a name or in a value."""
_LEAST = 4
"""Letters of a secret that is looked for in other texts; a shorter one stands in any of them."""


def is_open(key: str, text: str) -> bool:
    """Whether a property of a catalog may be shown."""
    return key in OPEN_PROPERTIES and not re.search(_LOGIN, text)


def redaction(patterns: str = "") -> str:
    """Spark's `spark.redaction.regex`: what it hides on its pages, in its logs and in answers.

    Args:
        patterns: What is hidden already.
    """
    names = "|".join(map(re.escape, OPEN_PROPERTIES))
    of_catalogs = rf"^spark\.sql\.catalog\.[^.]+\.(?!(?:{names})$)"
    return "|".join(filter(None, [f"(?i:{_ALWAYS}|{_LOGIN}|{of_catalogs})", patterns]))


def secret_values(addresses: list[str], properties: list[Mapping[str, str]]) -> frozenset[str]:
    """What must stand in no message: passwords in addresses, and properties that are not open.

    A password that is its user's name too hides nothing, and with it `meltline` would be stars.
    """
    values = [text for each in properties for key, text in each.items() if not is_open(key, text)]
    for address in addresses:
        values += _passwords(address)
    return frozenset(
        text for text in values if len(text) >= _LEAST and text not in ("true", "false")
    )


def _passwords(address: str) -> Iterator[str]:
    """The password of a URL, as it is written and as it is meant, and what its options say."""
    logins = re.findall(r"://([^/@\s:]*):([^/\s]+)@", address)
    written = [password for user, password in logins if password != user]
    written += re.findall(r"(?i)[?&][^=&]*(?:password|secret|token|key)[^=&]*=([^&]+)", address)
    for secret in written:
        yield from (secret, unquote(secret))
