"""Opens a metastore catalog with the client of its kind, boto3 or Thrift.

`catalogs` calls it. The clients are optional packages, so they are imported only here.
"""

from importlib.util import find_spec

from meltline.adapters.catalogs.metastores.aws_properties import require_whole_keys
from meltline.adapters.catalogs.metastores.tables import MetastoreTables
from meltline.config.load import CatalogConfig
from meltline.domain.errors import SetupMissing
from meltline.ports import MetadataFiles

_PACKAGES = {"glue": "boto3", "hive": "thrift"}


def require_client(kind: str) -> None:
    """Refuses a catalog whose client is not installed.

    Raises:
        SetupMissing: The package that it needs is missing.
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


def open_metastore(config: CatalogConfig, store: MetadataFiles) -> MetastoreTables:
    """Returns the adapter for a catalog of type hive or glue, and contacts nothing yet.

    Raises:
        SetupMissing: The package of its client is not installed.
        ConfigInvalid: Half of its keys are missing.
    """
    require_client(config.type)
    return _glue(config, store) if config.type == "glue" else _hive(config, store)


def _glue(config: CatalogConfig, store: MetadataFiles) -> MetastoreTables:
    from meltline.adapters.catalogs.metastores.aws_access import (  # noqa: PLC0415 - boto3
        glue_client,
    )
    from meltline.adapters.catalogs.metastores.glue import (  # noqa: PLC0415 - boto3
        GlueDatabases,
        GlueRows,
    )

    require_whole_keys(config)
    client = glue_client(config.properties)
    skip = config.properties.get("glue.skip-archive", "true").lower() == "true"
    rows = GlueRows(config.name, client, skip_archive=skip)
    return MetastoreTables(config, store, rows, GlueDatabases(config.name, client))


def _hive(config: CatalogConfig, store: MetadataFiles) -> MetastoreTables:
    from meltline.adapters.catalogs.metastores.hive import (  # noqa: PLC0415 - Thrift
        LOCK_SETTING,
        HiveRows,
    )
    from meltline.adapters.catalogs.metastores.hive_databases import (  # noqa: PLC0415 - Thrift
        HiveConnections,
        HiveDatabases,
    )

    connections = HiveConnections({**config.properties, "uri": config.uri})
    locks = config.properties.get(LOCK_SETTING, "true").lower() == "true"
    rows = HiveRows(config.name, connections, locks=locks)
    databases = HiveDatabases(config.name, connections, config.warehouse)
    return MetastoreTables(config, store, rows, databases)
