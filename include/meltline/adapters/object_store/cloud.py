"""Opens S3, GCS and Azure through obstore, from a catalog's properties in PyIceberg's words."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from obstore.store import AzureStore, GCSStore, S3Store

from meltline.domain.discretion import discreet

if TYPE_CHECKING:  # obstore keeps these names in its stubs alone
    from obstore.store import ClientConfig, GCSCredential, RetryConfig

CloudStore = S3Store | GCSStore | AzureStore

_AUTHORITY = re.compile(r"[\w$][\w$.@:-]*", re.ASCII)  # `$web` is a container's name
_RETRY: "RetryConfig" = {"max_retries": 8, "retry_timeout": timedelta(seconds=60)}


def open_cloud_store(scheme: str, authority: str, properties: Mapping[str, str]) -> CloudStore:
    """Opens the store of a bucket or container.

    Args:
        scheme: `s3`, `gs` or `abfs`.
        authority: The bucket; for Azure `container@account.host`.
        properties: PyIceberg's; what they leave out comes from the environment.

    Raises:
        ValueError: The scheme or a property is not supported, or no bucket has such a name.
    """
    if scheme in ("s3", "gs", "abfs") and not _AUTHORITY.fullmatch(authority):
        raise ValueError(f"no bucket or container is called {authority!r}")  # obstore would panic
    if scheme == "s3":
        return _open_s3(authority, properties)
    if scheme == "gs":
        return _open_gcs(authority, properties)
    if scheme == "abfs":
        return _open_azure(authority, properties)
    raise ValueError(f"no object store for {scheme}:, only for file, s3, gs and abfs")


def _open_s3(bucket: str, properties: Mapping[str, str]) -> S3Store:
    for key in ("s3.signer", "s3.profile-name", "s3.role-arn"):
        if key in properties:
            raise ValueError(f"{key} is not supported: give keys, or leave them to the environment")
    endpoint = properties.get("s3.endpoint", "").rstrip("/")
    virtual = _is_true(properties, "s3.force-virtual-addressing") or (
        properties.get("s3.path-style-access", "true").lower() == "false"
    )
    options = {
        "access_key_id": _first(properties, "s3.access-key-id", "client.access-key-id"),
        "secret_access_key": _first(properties, "s3.secret-access-key", "client.secret-access-key"),
        "session_token": _first(properties, "s3.session-token", "client.session-token"),
        "region": _first(properties, "s3.region", "client.region"),
        # obstore wants the bucket in the endpoint where it stands in the host's name
        "endpoint": endpoint.replace("://", f"://{bucket}.") if virtual else endpoint,
    }
    return S3Store(
        bucket,
        client_options=_client(endpoint, properties, "s3"),
        retry_config=_RETRY,
        virtual_hosted_style_request=virtual,
        skip_signature=_is_true(properties, "s3.anonymous"),
        **{name: option for name, option in options.items() if option},  # type: ignore[arg-type]
    )


def _open_gcs(bucket: str, properties: Mapping[str, str]) -> GCSStore:
    token, host = properties.get("gcs.oauth2.token"), properties.get("gcs.service.host", "")
    options = {"base_url": host} if host else {}
    return GCSStore(
        bucket,
        client_options=_client(host, properties, "gcs"),
        retry_config=_RETRY,
        credential_provider=_token(token) if token else None,
        **options,  # type: ignore[arg-type]
    )


def _token(token: str) -> "Callable[[], GCSCredential]":
    return lambda: {"token": token, "expires_at": None}


def _open_azure(authority: str, properties: Mapping[str, str]) -> AzureStore:
    container, _, host = authority.partition("@")
    endpoint = properties.get("adls.account-host", "")
    options = {
        "account_name": properties.get("adls.account-name") or host.partition(".")[0],
        "account_key": properties.get("adls.account-key"),
        "sas_key": properties.get("adls.sas-token"),
        "tenant_id": properties.get("adls.tenant-id"),
        "client_id": properties.get("adls.client-id"),
        "client_secret": properties.get("adls.client-secret"),
        "token": properties.get("adls.token"),
        "endpoint": endpoint and (endpoint if "://" in endpoint else f"https://{endpoint}"),
    }
    return AzureStore(
        container,
        client_options=_client(endpoint, properties, "adls"),
        retry_config=_RETRY,
        **{name: option for name, option in options.items() if option},  # type: ignore[arg-type]
    )


def _client(endpoint: str, properties: Mapping[str, str], store: str) -> "ClientConfig":
    options: ClientConfig = {"allow_http": endpoint.lower().startswith("http://")}
    for name in ("connect-timeout", "request-timeout"):
        if seconds := properties.get(f"{store}.{name}"):
            span = timedelta(seconds=float(seconds))
            options["connect_timeout" if name == "connect-timeout" else "timeout"] = span
    if proxy := properties.get(f"{store}.proxy-uri"):
        options["proxy_url"] = proxy
    return options


def _first(properties: Mapping[str, str], *names: str) -> str:
    return next((properties[name] for name in names if properties.get(name)), "")


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


def reason_of(error: Exception) -> str:
    """What the client said, without the queries of addresses: signatures stand there."""
    message = str(error).partition("\n\nDebug source")[0]
    return discreet(re.sub(r"(https?://[^\s?]*)\?\S*", r"\1", message))[:500]
