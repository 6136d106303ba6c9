"""Decides which values of `meltline.yaml` are secrets; the only module that does.

A catalog accepts any property, and future clients may add keys for secrets that are unknown today.
So a catalog's property is a secret unless it is listed here.
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
"""Properties of a catalog that give no access. All others are secrets."""

_LOGIN = r"://[^/@\s:]*:[^/@\s]+@"
"""A user and a password in an address, at any position."""
_ALWAYS = r"secret|password|token|access[.]?key"
"""The pattern of Spark's own default for secrets, in a name or in a value."""
_LEAST = 4
"""The minimum length of a secret that is redacted in other texts; shorter ones match any text."""


def is_open(key: str, text: str) -> bool:
    """Whether a property of a catalog may be shown."""
    return key in OPEN_PROPERTIES and not re.search(_LOGIN, text)


def redaction(patterns: str = "") -> str:
    """Returns Spark's `spark.redaction.regex`, which hides secrets in pages, logs and results.

    Args:
        patterns: An existing pattern to keep.
    """
    names = "|".join(map(re.escape, OPEN_PROPERTIES))
    of_catalogs = rf"^spark\.sql\.catalog\.[^.]+\.(?!(?:{names})$)"
    return "|".join(filter(None, [f"(?i:{_ALWAYS}|{_LOGIN}|{of_catalogs})", patterns]))


def secret_values(addresses: list[str], properties: list[Mapping[str, str]]) -> frozenset[str]:
    """Returns the texts to redact: passwords in addresses, and secret properties.

    A password equal to its user's name is left out: it protects nothing, and every `meltline` would
    be redacted.
    """
    values = [text for each in properties for key, text in each.items() if not is_open(key, text)]
    for address in addresses:
        values += _passwords(address)
    return frozenset(
        text for text in values if len(text) >= _LEAST and text not in ("true", "false")
    )


def _passwords(address: str) -> Iterator[str]:
    """Yields the passwords of a URL, as written and decoded, and those in its options."""
    logins = re.findall(r"://([^/@\s:]*):([^/\s]+)@", address)
    written = [password for user, password in logins if password != user]
    written += re.findall(r"(?i)[?&][^=&]*(?:password|secret|token|key)[^=&]*=([^&]+)", address)
    for secret in written:
        yield from (secret, unquote(secret))
