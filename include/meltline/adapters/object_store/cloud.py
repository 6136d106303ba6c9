"""Opens S3, GCS and Azure through obstore, from a catalog's properties in PyIceberg's words."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import TYPE_CHECKING

from obstore.store import AzureStore, GCSStore, S3Store

from meltline.adapters.object_store.azure import open_azure
from meltline.adapters.object_store.client import client_options, retries
from meltline.adapters.object_store.s3_credentials import (
    KEY,
    REGION,
    Current,
    first,
    keys_of,
    provider_of,
    vended_keys,
)

if TYPE_CHECKING:  # obstore keeps this name in its stubs alone
    from obstore.store import GCSCredential

CloudStore = S3Store | GCSStore | AzureStore

_AUTHORITY = re.compile(r"[\w$][\w$.@:-]*", re.ASCII)  # `$web` is a container's name
_GCS_TOKEN = "gcs.oauth2.token"


def open_cloud_store(
    scheme: str, authority: str, properties: Mapping[str, str], current: Current | None = None
) -> CloudStore:
    """Opens the store of a bucket or container.

    Args:
        scheme: `s3`, `gs` or `abfss`.
        authority: The bucket; for Azure `container@account.host`.
        properties: PyIceberg's; what they leave out comes from the environment.
        current: Tells what a catalog vends for it at that moment, where one does.

    Raises:
        ValueError: The scheme or a property is not supported, or no bucket has such a name.
    """
    if scheme in ("s3", "gs", "abfss") and not _AUTHORITY.fullmatch(authority):
        raise ValueError(f"no bucket or container is called {authority!r}")  # obstore would panic
    if scheme == "s3":
        return _open_s3(authority, properties, current)
    if scheme == "gs":
        return _open_gcs(authority, properties, current)
    if scheme == "abfss":
        return open_azure(authority, properties, current)
    raise ValueError(f"no object store for {scheme}:, only for file, s3, gs and abfs")


def _open_s3(bucket: str, properties: Mapping[str, str], current: Current | None) -> S3Store:
    if bucket.startswith("arn:"):
        raise ValueError(f"{bucket} is an ARN: give the alias of the access point as the bucket")
    keys = keys_of(properties)
    is_vended = current is not None and bool(first(current().properties, KEY))
    provider = vended_keys(current) if current and is_vended else provider_of(properties)
    endpoint = properties.get("s3.endpoint", "").rstrip("/")
    virtual = _is_true(properties, "s3.force-virtual-addressing") or (
        properties.get("s3.path-style-access", "true").lower() == "false"
    )
    options = {
        **({} if provider else keys),
        "region": first(properties, REGION),
        # obstore wants the bucket in the endpoint where it stands in the host's name
        "endpoint": endpoint.replace("://", f"://{bucket}.") if virtual else endpoint,
    }
    return S3Store(
        bucket,
        client_options=client_options(endpoint, properties, "s3"),
        retry_config=retries(properties),
        credential_provider=provider,
        virtual_hosted_style_request=virtual,
        skip_signature=_is_true(properties, "s3.anonymous"),
        **{name: option for name, option in options.items() if option},  # type: ignore[arg-type]
    )


def _open_gcs(bucket: str, properties: Mapping[str, str], current: Current | None) -> GCSStore:
    token, host = properties.get(_GCS_TOKEN), properties.get("gcs.service.host", "")
    provider = _token(token) if token else None
    if current and current().properties.get(_GCS_TOKEN):
        provider = _vended_token(current)
    options = {"base_url": host} if host else {}
    return GCSStore(
        bucket,
        client_options=client_options(host, properties, "gcs"),
        retry_config=retries(properties),
        credential_provider=provider,
        **options,  # type: ignore[arg-type]
    )


def _token(token: str) -> "Callable[[], GCSCredential]":
    return lambda: {"token": token, "expires_at": None}


def _vended_token(current: Current) -> "Callable[[], GCSCredential]":
    def token() -> "GCSCredential":
        vended = current()
        end = vended.expires_at
        return {
            "token": vended.properties[_GCS_TOKEN],
            "expires_at": end and end.astimezone(UTC),
        }

    return token


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"
