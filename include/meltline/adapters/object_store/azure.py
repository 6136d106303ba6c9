"""Opens containers of Azure through obstore, each with what belongs to its own account."""

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import TYPE_CHECKING

from obstore.store import AzureStore

from meltline.adapters.object_store.client import client_options, retries
from meltline.ports import VendedCredentials

if TYPE_CHECKING:  # obstore keeps this name in its stubs alone
    from obstore.store import AzureSASToken

_SUFFIX = "core.windows.net"
_EVERY_TENANT = {
    "tenant_id": "adls.tenant-id",
    "client_id": "adls.client-id",
    "client_secret": "adls.client-secret",
    "token": "adls.token",
}
"""What speaks for a person or program, in whatever account."""


def open_azure(
    authority: str,
    properties: Mapping[str, str],
    current: Callable[[], VendedCredentials] | None,
) -> AzureStore:
    """Opens the container of `container@account.host`, or of the configured account.

    Key and address of the configured account are not used for another one: its container may
    have the same name.

    Raises:
        ValueError: No account is named.
    """
    container, _, host = authority.partition("@")
    account, configured = host.partition(".")[0].lower(), properties.get("adls.account-name", "")
    is_configured = not account or account == (configured or account).lower()
    ours = properties if is_configured else {}
    endpoint = ours.get("adls.account-host", "")
    is_vended = current is not None and bool(sas_token(current().properties, host))
    token = sas_token(properties, host) or ours.get("adls.sas-token")
    options = {
        **{name: properties.get(key) for name, key in _EVERY_TENANT.items()},
        "account_name": account or configured,
        "account_key": ours.get("adls.account-key"),
        "sas_key": None if is_vended else token,
        "endpoint": _address(endpoint) or _other_cloud(host),
    }
    return AzureStore(
        container,
        client_options=client_options(endpoint, properties, "adls"),
        retry_config=retries(properties),
        credential_provider=_vended_token(current, host) if current and is_vended else None,
        **{name: option for name, option in options.items() if option},  # type: ignore[arg-type]
    )


def _address(endpoint: str) -> str:
    return endpoint if not endpoint or "://" in endpoint else f"https://{endpoint}"


def _other_cloud(host: str) -> str:
    """Where an account answers that is not in Azure's public cloud: as its own host says."""
    if not host or "." not in host or host.endswith(_SUFFIX):
        return ""
    return f"https://{host.lower().replace('.dfs.', '.blob.')}"


def sas_token(properties: Mapping[str, str], host: str) -> str:
    """The token of one account, as Iceberg names it: `adls.sas-token.` and its host or name."""
    account = host.partition(".")[0]
    hosts = (host, host.replace(".blob.", ".dfs."), host.replace(".dfs.", ".blob."), account)
    tokens = (properties.get(f"adls.sas-token.{name}", "") for name in hosts)
    return next((token for token in tokens if token), "")


def _vended_token(
    current: Callable[[], VendedCredentials], host: str
) -> "Callable[[], AzureSASToken]":
    def token() -> "AzureSASToken":
        vended = current()
        end = vended.expires_at
        token = sas_token(vended.properties, host)
        return {"sas_token": token, "expires_at": end and end.astimezone(UTC)}

    return token
