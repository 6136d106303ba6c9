"""How stores are spoken to over HTTP: retries, timeouts, proxies."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # obstore keeps these names in its stubs alone
    from obstore.store import ClientConfig, RetryConfig

_RETRIES, _RETRIED_FOR = 8, timedelta(seconds=60)


def retries(properties: Mapping[str, str]) -> "RetryConfig":
    """How often, and for how long, a request is sent again; Iceberg's client knows the property."""
    often = int(properties.get("s3.retry.num-retries") or _RETRIES)
    return {"max_retries": often, "retry_timeout": _RETRIED_FOR}


def client_options(endpoint: str, properties: Mapping[str, str], store: str) -> "ClientConfig":
    """What obstore's client of one store is told.

    Args:
        endpoint: Where the store answers; empty for its own address.
        properties: Of the catalog.
        store: With what its properties begin: `s3`, `gcs` or `adls`.
    """
    options: ClientConfig = {"allow_http": endpoint.lower().startswith("http://")}
    for name in ("connect-timeout", "request-timeout"):
        if seconds := properties.get(f"{store}.{name}"):
            span = timedelta(seconds=float(seconds))
            options["connect_timeout" if name == "connect-timeout" else "timeout"] = span
    if proxy := properties.get(f"{store}.proxy-uri"):
        options["proxy_url"] = proxy
    return options
