"""Which of Iceberg's clients reads a catalog's store in Spark, and what it is told.

The properties are PyIceberg's words; Iceberg's own clients know most of them, and the rest is
turned here, so that one configuration is for both.
"""

from collections.abc import Mapping

from meltline.domain.iceberg.locations import SAME_SCHEME, split_location

_CLIENTS = {
    "s3": "org.apache.iceberg.aws.s3.S3FileIO",
    "gs": "org.apache.iceberg.gcp.gcs.GCSFileIO",
    "abfss": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
}
_ROLE = "client.assume-role.arn"
_TURNED = {
    "s3.role-arn": _ROLE,
    "client.role-arn": _ROLE,
    "s3.role-session-name": "client.assume-role.session-name",
    "client.role-session-name": "client.assume-role.session-name",
    "client.access-key-id": "s3.access-key-id",
    "client.secret-access-key": "s3.secret-access-key",
    "client.session-token": "s3.session-token",
    "s3.region": "client.region",
    "adls.account-name": "adls.auth.shared-key.account.name",
    "adls.account-key": "adls.auth.shared-key.account.key",
}
"""PyIceberg's words by what Iceberg's own clients call the same."""


def store_settings(warehouse: str, properties: Mapping[str, str]) -> dict[str, str]:
    """What a Spark catalog is told beside its own properties; nothing for local files.

    Args:
        warehouse: By its scheme the client is chosen.
        properties: Of the catalog; what stands there in Iceberg's own words wins.
    """
    scheme = split_location(warehouse).scheme
    scheme = SAME_SCHEME.get(scheme, scheme)
    if scheme not in _CLIENTS:
        return {}
    turned = {"io-impl": _CLIENTS[scheme]}
    for theirs, own in _TURNED.items():
        if (text := properties.get(theirs)) and not properties.get(own):
            turned[own] = text
    if scheme == "s3":
        turned |= _of_a_role({**turned, **properties})
    if scheme == "abfss":
        turned |= _of_an_account(warehouse, properties)
    return {key: text for key, text in turned.items() if key not in properties}


def _of_a_role(properties: Mapping[str, str]) -> dict[str, str]:
    """Iceberg's client assumes a role by another factory, which must be told a region."""
    if not properties.get(_ROLE):
        return {}
    return {
        "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
        "client.assume-role.region": properties.get("client.region", ""),
    }


def _of_an_account(warehouse: str, properties: Mapping[str, str]) -> dict[str, str]:
    """A token and an address belong to one account, by whose host Iceberg's client finds them."""
    _, _, host = split_location(warehouse).authority.partition("@")
    settings: dict[str, str] = {}
    if token := properties.get("adls.sas-token"):
        settings[f"adls.sas-token.{host}"] = token
    if address := properties.get("adls.account-host"):
        whole = address if "://" in address else f"https://{address}"
        settings[f"adls.connection-string.{host}"] = whole
    return settings if host else {}
