"""How stores are spoken to over HTTP: retries, timeouts, proxies."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # obstore keeps these names in its stubs alone
    from obstore.store import ClientConfig, RetryConfig

RETRY: "RetryConfig" = {"max_retries": 8, "retry_timeout": timedelta(seconds=60)}


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
