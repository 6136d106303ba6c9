"""AWS credentials and region of one catalog, for boto3 and for Iceberg's Java clients.

`meltline.yaml` uses PyIceberg's keys: `glue.*` for Glue alone, `client.*` for all services.
"""

from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config as Settings
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

from meltline.adapters.catalogs.metastores.aws_properties import word


def glue_client(properties: Mapping[str, str]) -> Any:
    """Creates a Glue client that sends each request once, so that no change is sent twice."""
    session = _session(properties)
    client = session.client(
        "glue",
        region_name=word(properties, "region"),
        endpoint_url=properties.get("glue.endpoint"),
        config=Settings(retries={"total_max_attempts": 1, "mode": "standard"}),
    )
    if catalog_id := properties.get("glue.id"):
        client.meta.events.register(
            "provide-client-params.glue",
            lambda params, **_: params.setdefault("CatalogId", catalog_id),
        )
    return client


def _session(properties: Mapping[str, str]) -> Any:
    session = boto3.Session(
        profile_name=word(properties, "profile-name"),
        region_name=word(properties, "region"),
        aws_access_key_id=word(properties, "access-key-id"),
        aws_secret_access_key=word(properties, "secret-access-key"),
        aws_session_token=word(properties, "session-token"),
    )
    role = word(properties, "role-arn")
    return _in_role(session, role, properties) if role else session


def _in_role(session: Any, role: str, properties: Mapping[str, str]) -> Any:
    """Creates a session with an assumed role, and refreshes its credentials before expiry."""
    inner = session._session
    further = {"RoleSessionName": word(properties, "role-session-name") or "meltline"}
    if external := properties.get("client.assume-role.external-id"):
        further["ExternalId"] = external
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=inner.create_client,
        source_credentials=inner.get_credentials(),
        role_arn=role,
        extra_args=further,
    )
    acting = boto3.Session(region_name=word(properties, "region"))
    acting._session._credentials = DeferredRefreshableCredentials(
        fetcher.fetch_credentials, "assume-role"
    )
    return acting
