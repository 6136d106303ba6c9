"""Translates the AWS properties of a Glue catalog to those of Iceberg's Java clients.

The Spark session uses it, and it imports no AWS client: only `aws_access` needs boto3.
"""

from collections.abc import Iterable, Mapping

from meltline.config.load import CatalogConfig
from meltline.domain.errors import ConfigInvalid

_KEYS = {
    "access-key-id": "aws.accessKeyId",
    "secret-access-key": "aws.secretAccessKey",
    "session-token": "aws.sessionToken",
    "profile-name": "aws.profile",
}
_OURS = {*_KEYS, "region", "role-arn", "role-session-name", "max-retries", "retry-mode"}
_PROFILES = "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
_ROLES = "org.apache.iceberg.aws.AssumeRoleAwsClientFactory"


def word(properties: Mapping[str, str], key: str) -> str | None:
    """Returns a property for Glue, else the one for all services."""
    return properties.get(f"glue.{key}") or properties.get(f"client.{key}")


def require_whole_keys(catalog: CatalogConfig) -> None:
    """Refuses half of a key pair: neither client notices the missing half before it signs.

    Raises:
        ConfigInvalid: One key is given and the other is not.
    """
    halves = {key: word(catalog.properties, key) for key in ("access-key-id", "secret-access-key")}
    missing = [key for key, text in halves.items() if not text]
    if len(missing) == 1:
        raise ConfigInvalid(
            f"catalog {catalog.name}: glue.{missing[0]} is missing beside its other half",
            object=f"catalogs.{catalog.name}",
            expected="glue.access-key-id and glue.secret-access-key, or neither",
            found="one of the two",
            next="give it both, or none and let the environment or the machine's role have them",
        )


def java_words(catalog: CatalogConfig) -> dict[str, str]:
    """Returns the Java catalog's properties that replace those in `meltline.yaml`.

    Raises:
        ConfigInvalid: Java has one region for Glue and S3, and they differ.
    """
    ours = catalog.properties
    passed = {k: v for k, v in ours.items() if not _is_ours(k)}
    region = word(ours, "region") or ours.get("s3.region")
    if region != (ours.get("s3.region") or region):
        raise _contradiction(catalog.name, "region of glue and of s3", "one region for both")
    words = {"client.region": region or ""}
    for key in ("access-key-id", "secret-access-key", "session-token"):
        words[f"s3.{key}"] = ours.get(f"s3.{key}") or ours.get(f"client.{key}", "")
    if word(ours, "profile-name"):
        words["client.credentials-provider"] = _PROFILES
    if role := word(ours, "role-arn"):
        words |= {
            "client.factory": _ROLES,
            "client.assume-role.arn": role,
            "client.assume-role.region": region or "",
            "client.assume-role.session-name": word(ours, "role-session-name") or "meltline",
        }
    return {k: v for k, v in {**passed, **words}.items() if v}


def _is_ours(key: str) -> bool:
    prefix, _, rest = key.partition(".")
    return prefix in {"glue", "client"} and rest in _OURS


def jvm_properties(catalogs: Iterable[CatalogConfig]) -> dict[str, str]:
    """Returns keys for Glue as system properties of the JVM, the only form that Java accepts.

    Raises:
        ConfigInvalid: Two catalogs have different ones: a JVM has one set for all.
    """
    answer: dict[str, str] = {}
    names: list[str] = []
    for catalog in catalogs:
        keys = {jvm: word(catalog.properties, key) or "" for key, jvm in _KEYS.items()}
        if catalog.type != "glue" or not any(keys.values()):
            continue
        names.append(catalog.name)
        if answer and keys != answer:
            subject = f"keys or profiles of {' and '.join(names)}"
            raise _contradiction(
                catalog.name, subject, "one set of keys for all catalogs of type glue"
            )
        answer = keys
    return {key: text for key, text in answer.items() if text}


def _contradiction(catalog: str, subject: str, expected: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"catalog {catalog}: Iceberg in Java cannot use different values: {subject}",
        object=catalog,
        expected=expected,
        found="different ones",
        next="make them the same, or use a role (client.role-arn) that may do both",
    )
