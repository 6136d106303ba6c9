"""HTTP options of obstore's clients: retries, timeouts, proxies, from a catalog's properties."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # obstore keeps these names in its stubs alone
    from obstore.store import ClientConfig, RetryConfig

_RETRIES, _RETRIED_FOR = 8, timedelta(seconds=60)


def retries(properties: Mapping[str, str]) -> "RetryConfig":
    """Returns how often and how long a request is retried, by a property of Iceberg's client."""
    often = int(properties.get("s3.retry.num-retries") or _RETRIES)
    return {"max_retries": often, "retry_timeout": _RETRIED_FOR}


def client_options(endpoint: str, properties: Mapping[str, str], store: str) -> "ClientConfig":
    """Returns the HTTP options of one store's client.

    Args:
        endpoint: The store's address; empty for the default one.
        properties: The catalog's properties.
        store: The prefix of its properties: `s3`, `gcs` or `adls`.
    """
    options: ClientConfig = {"allow_http": endpoint.lower().startswith("http://")}
    for name in ("connect-timeout", "request-timeout"):
        if seconds := properties.get(f"{store}.{name}"):
            span = timedelta(seconds=float(seconds))
            options["connect_timeout" if name == "connect-timeout" else "timeout"] = span
    if proxy := properties.get(f"{store}.proxy-uri"):
        options["proxy_url"] = proxy
    return options
