"""The packages that a metastore's client is made of; who has none of it is told which."""

from importlib.util import find_spec

from meltline.domain.errors import SetupMissing

_PACKAGES = {"glue": "boto3", "hive": "thrift"}


def require_client(kind: str) -> None:
    """Refuses a catalog whose client is not installed.

    Raises:
        SetupMissing: It needs a package that is not there.
    """
    package = _PACKAGES[kind]
    if find_spec(package) is None:
        raise SetupMissing(
            f"catalogs of type {kind} need the package {package}, which is not installed",
            object=package,
            expected=f"the extra [{kind}]",
            found="no such package",
            next=f"pip install 'meltline[{kind}]'",
        )
