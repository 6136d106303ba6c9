"""Opens S3, GCS and Azure stores through obstore, from a catalog's PyIceberg properties.

`cloud_objects` calls it once per bucket and keeps the stores. Credentials of every kind are chosen
here, so that a wrong combination is refused before a request is sent.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import TYPE_CHECKING

from obstore.store import AzureStore, GCSStore, S3Store

from meltline.adapters.object_store.client import client_options, retries

if TYPE_CHECKING:  # obstore keeps this name in its stubs alone
    from obstore.store import GCSCredential
import os
from datetime import timedelta
from typing import TYPE_CHECKING

from meltline.domain.errors import SetupMissing
from meltline.ports import VendedCredentials

if TYPE_CHECKING:  # obstore keeps the last two in its stubs alone
    from obstore.auth.boto3 import StsCredentialProvider
    from obstore.store import S3Credential, S3CredentialProvider
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # obstore keeps this name in its stubs alone
    from obstore.store import AzureSASToken


_SUFFIX = "core.windows.net"
_EVERY_TENANT = {
    "tenant_id": "adls.tenant-id",
    "client_id": "adls.client-id",
    "client_secret": "adls.client-secret",
    "token": "adls.token",
}
"""Credentials of a user or application, valid in every account."""


def open_azure(
    authority: str,
    properties: Mapping[str, str],
    current: Callable[[], VendedCredentials] | None,
) -> AzureStore:
    """Opens the container of `container@account.host`, or of the configured account.

    Key and address of the configured account are not used for another account, because its
    container may have the same name.

    Raises:
        ValueError: The location names no account.
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
        credential_provider=_vended_azure_token(current, host) if current and is_vended else None,
        **{name: option for name, option in options.items() if option},  # type: ignore[arg-type]
    )


def _address(endpoint: str) -> str:
    return endpoint if not endpoint or "://" in endpoint else f"https://{endpoint}"


def _other_cloud(host: str) -> str:
    """Returns the address of an account outside Azure's public cloud, taken from its host."""
    if not host or "." not in host or host.endswith(_SUFFIX):
        return ""
    return f"https://{host.lower().replace('.dfs.', '.blob.')}"


def sas_token(properties: Mapping[str, str], host: str) -> str:
    """Returns the token of one account, by Iceberg's `adls.sas-token.` and its host or name."""
    account = host.partition(".")[0]
    hosts = (host, host.replace(".blob.", ".dfs."), host.replace(".dfs.", ".blob."), account)
    tokens = (properties.get(f"adls.sas-token.{name}", "") for name in hosts)
    return next((token for token in tokens if token), "")


def _vended_azure_token(
    current: Callable[[], VendedCredentials], host: str
) -> "Callable[[], AzureSASToken]":
    def token() -> "AzureSASToken":
        vended = current()
        end = vended.expires_at
        token = sas_token(vended.properties, host)
        return {"sas_token": token, "expires_at": end and end.astimezone(UTC)}

    return token


Current = Callable[[], VendedCredentials]
"""Returns the current credentials for a prefix."""

ROLE = ("client.assume-role.arn", "s3.role-arn", "client.role-arn")
"""Properties that name a role: the first is Iceberg's own, the others are PyIceberg's."""
SESSION = ("client.assume-role.session-name", "s3.role-session-name", "client.role-session-name")
REGION = ("s3.region", "client.region")
KEY = ("s3.access-key-id", "client.access-key-id")
SECRET = ("s3.secret-access-key", "client.secret-access-key")
TOKEN = ("s3.session-token", "client.session-token")
_PROFILES = ("s3.profile-name", "client.profile-name")
_SIGNERS = ("s3.signer", "s3.remote-signing-enabled")
_ASKED_ANEW = timedelta(minutes=10)  # boto3 itself has renewed its keys by then


def first(properties: Mapping[str, str], names: tuple[str, ...]) -> str:
    """Returns the first property that is not empty; empty if there is none."""
    return next((properties[name] for name in names if properties.get(name)), "")


def keys_of(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the keys in the properties under obstore's names; none where a role is assumed.

    Raises:
        ValueError: A half is missing, a role contradicts them, or no client here uses them.
    """
    _refuse_others(properties)
    keys = {
        "access_key_id": first(properties, KEY),
        "secret_access_key": first(properties, SECRET),
        "session_token": first(properties, TOKEN),
    }
    if bool(keys["access_key_id"]) is not bool(keys["secret_access_key"]):
        missing = KEY[0] if keys["secret_access_key"] else SECRET[0]
        raise ValueError(f"{missing} is missing beside its other half")
    if keys["access_key_id"] and (role := first(properties, ROLE)):
        raise ValueError(
            f"there are keys and the role {role}: a role is assumed with the environment's keys, "
            f"by every client; take {KEY[0]} away and set AWS_ACCESS_KEY_ID"
        )
    return {name: key for name, key in keys.items() if key}


def _refuse_others(properties: Mapping[str, str]) -> None:
    if name := next((name for name in _PROFILES if properties.get(name)), ""):
        raise ValueError(
            f"{name} is not supported, for Iceberg's own client does not know it: set AWS_PROFILE, "
            "which all clients read"
        )
    has_keys = bool(first(properties, KEY))
    for name in _SIGNERS:
        if properties.get(name, "false").lower() != "false" and not has_keys:
            raise ValueError(
                f"{name} is not supported, by which the catalog signs each request: have it vend "
                "credentials instead, or give keys"
            )


def provider_of(
    properties: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> "S3CredentialProvider | None":
    """Returns a provider of keys that obstore cannot fetch: those of a role or of a profile.

    Raises:
        SetupMissing: This needs boto3, which is not installed.
        ValueError: The profile has no keys.
    """
    role = first(properties, ROLE)
    has_keys = first(properties, KEY) or environ.get("AWS_ACCESS_KEY_ID")
    if not role and (has_keys or not environ.get("AWS_PROFILE")):
        return None
    try:
        from boto3 import Session  # noqa: PLC0415 - an extra
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
        from obstore.auth.boto3 import (  # noqa: PLC0415
            Boto3CredentialProvider,
            StsCredentialProvider,
        )
    except ImportError as error:
        raise _no_boto3(role) from error
    if not role:
        try:
            return Boto3CredentialProvider(Session(), ttl=_ASKED_ANEW)
        except BotoCoreError as error:
            raise ValueError(f"AWS_PROFILE: {error}") from error
    region = properties.get("client.assume-role.region") or first(properties, REGION)
    further = {
        "ExternalId": properties.get("client.assume-role.external-id"),
        "DurationSeconds": int(properties.get("client.assume-role.timeout-sec") or 3600),
    }
    return _in_utc(
        StsCredentialProvider(
            Session(region_name=region or None),
            RoleArn=role,
            RoleSessionName=first(properties, SESSION) or "meltline",
            **{name: said for name, said in further.items() if said},  # type: ignore[arg-type]
        )
    )


def _in_utc(role: "StsCredentialProvider") -> "Callable[[], S3Credential]":
    """Converts the expiry to UTC: boto3's zone equals it, but obstore refuses that object."""

    def keys() -> "S3Credential":
        assumed = role()
        end = assumed["expires_at"]
        return {**assumed, "expires_at": end and end.astimezone(UTC)}

    return keys


def _no_boto3(role: str) -> SetupMissing:
    return SetupMissing(
        "boto3 is not installed, which fetches the keys of roles and profiles",
        object=role or "AWS_PROFILE",
        expected="the package boto3",
        found="none",
        next="install it beside Meltline, or give keys",
    )


def vended_keys(current: Current) -> "Callable[[], S3Credential]":
    """Returns a provider of the keys that a catalog vends, refreshed on each call."""

    def keys() -> "S3Credential":
        vended = current()
        return {
            "access_key_id": first(vended.properties, KEY),
            "secret_access_key": first(vended.properties, SECRET),
            "token": first(vended.properties, TOKEN) or None,
            "expires_at": vended.expires_at and vended.expires_at.astimezone(UTC),
        }

    return keys


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
        properties: PyIceberg's; missing ones come from the environment.
        current: Returns the credentials that a catalog vends for it; None if it vends none.

    Raises:
        ValueError: The scheme or a property is not supported, or the bucket's name is invalid.
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
        # obstore needs the bucket in the endpoint if it is part of the host name
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
