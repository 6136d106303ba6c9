"""With what S3 is asked: keys, a role, a profile, or what a catalog has vended."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from meltline.domain.errors import SetupMissing
from meltline.ports import VendedCredentials

if TYPE_CHECKING:  # obstore keeps the last two in its stubs alone
    from obstore.auth.boto3 import StsCredentialProvider
    from obstore.store import S3Credential, S3CredentialProvider

Current = Callable[[], VendedCredentials]
"""What opens a prefix at this moment."""

ROLE = ("client.assume-role.arn", "s3.role-arn", "client.role-arn")
"""Properties that name a role: the first is Iceberg's own, the others are PyIceberg's."""
SESSION = ("client.assume-role.session-name", "s3.role-session-name", "client.role-session-name")
REGION = ("s3.region", "client.region")
KEY = ("s3.access-key-id", "client.access-key-id")
SECRET = ("s3.secret-access-key", "client.secret-access-key")
TOKEN = ("s3.session-token", "client.session-token")
_PROFILES = ("s3.profile-name", "client.profile-name")
_SIGNERS = ("s3.signer", "s3.remote-signing-enabled")
_ASKED_ANEW = timedelta(minutes=10)  # boto3 itself renews what it has by then


def first(properties: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The first of some properties that says anything; empty where none does."""
    return next((properties[name] for name in names if properties.get(name)), "")


def keys_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The keys that stand in the properties, in obstore's words; none where a role is assumed.

    Raises:
        ValueError: They are half there, contradict a role, or are not used by any client here.
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
    """What fetches keys that obstore does not fetch by itself: those of a role or of a profile.

    Raises:
        SetupMissing: That needs boto3, which is not installed.
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
    """The same keys: boto3 gives their end in a zone that obstore refuses, though it is UTC."""

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
    """Hands out the keys that a catalog vends, as they are at that moment."""

    def keys() -> "S3Credential":
        vended = current()
        return {
            "access_key_id": first(vended.properties, KEY),
            "secret_access_key": first(vended.properties, SECRET),
            "token": first(vended.properties, TOKEN) or None,
            "expires_at": vended.expires_at and vended.expires_at.astimezone(UTC),
        }

    return keys
