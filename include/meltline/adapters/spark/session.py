"""The Spark session, with the catalogs of `meltline.yaml` configured inside the app.

Every command and step that uses Spark opens it. Catalog settings are never passed as `--conf`,
because the process list would show their secrets. Spark hides them on its pages, in its event log
and in the results of `SET`.

The configuration uses PyIceberg's property names. Iceberg's Java clients know most of them, and
the others are translated here, so that one configuration serves both.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryFile
from types import MappingProxyType
from urllib.parse import unquote

import pyspark.testing.utils  # noqa: F401 - PySpark checks it for NumPy at each call of the JVM
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from meltline.adapters.catalogs.metastores.aws_properties import java_words, jvm_properties
from meltline.adapters.catalogs.metastores.flat_names import as_held
from meltline.adapters.catalogs.sql_catalog import may_migrate
from meltline.adapters.spark.executors import prepare_executors, runs_here
from meltline.adapters.spark.first_tables import preparing
from meltline.adapters.spark.shared_jvm import join_context
from meltline.config.load import CatalogConfig, Config
from meltline.config.secrets import redaction
from meltline.domain.iceberg.locations import SAME_SCHEME, split_location
from meltline.domain.iceberg.names import TableName, quote_part
from meltline.extras import refuse_connect
from meltline.jars.jar_paths import jar_paths, java_options

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
"""PyIceberg's property names, with the names of the same in Iceberg's Java clients."""


def store_settings(warehouse: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns a Spark catalog's settings beside its own properties; empty for local files.

    Args:
        warehouse: Its scheme decides the client.
        properties: The catalog's; those under the Java clients' names win.
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
    """Returns the settings to assume a role: another client factory, which needs a region."""
    if not properties.get(_ROLE):
        return {}
    return {
        "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
        "client.assume-role.region": properties.get("client.region", ""),
    }


def _of_an_account(warehouse: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the token and address of one account, keyed by its host for Iceberg's client."""
    _, _, host = split_location(warehouse).authority.partition("@")
    settings: dict[str, str] = {}
    if token := properties.get("adls.sas-token"):
        settings[f"adls.sas-token.{host}"] = token
    if address := properties.get("adls.account-host"):
        whole = address if "://" in address else f"https://{address}"
        settings[f"adls.connection-string.{host}"] = whole
    return settings if host else {}


_STDERR = 2
_DELEGATION = "header.X-Iceberg-Access-Delegation"
_REDACTION = "spark.redaction.regex"
_CATALOG_CLASSES = {
    "sql": "org.apache.iceberg.jdbc.JdbcCatalog",
    "rest": "org.apache.iceberg.rest.RESTCatalog",
    "hive": "org.apache.iceberg.hive.HiveCatalog",
    "glue": "org.apache.iceberg.aws.glue.GlueCatalog",
}


def open_session(
    config: Config,
    app: str,
    environ: Mapping[str, str] = os.environ,
    further: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """Starts or joins the session of this process. The master is the environment's, else local.

    Args:
        config: The configuration with the catalogs.
        app: The session's display name.
        environ: Has the master and the jars.
        further: Settings that override those from the configuration.

    Raises:
        ConnectRefused: The environment requests a Spark Connect session.
        ExecutorsUnfit: Executors of a cluster lack packages that our code needs.
    """
    refuse_connect({**os.environ, **environ})
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if runs_here(environ.get("MELTLINE_MASTER", "local")):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # no other host may connect
    settings = {"spark.app.name": f"meltline {app}", **session_settings(config), **further}
    if "PYSPARK_GATEWAY_PORT" not in environ:  # spark-submit has set these itself
        settings = {**jvm_settings(environ.get("MELTLINE_MASTER", "local[2]"), environ), **settings}
    _start_jvm(settings, environ)
    join_context()
    hidden = SparkConf().get(_REDACTION, "")
    builder = SparkSession.builder.config(map={**settings, _REDACTION: redaction(hidden or "")})
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for key, text in jvm_properties(config.catalogs.values()).items():
        session._jvm.java.lang.System.setProperty(key, text)  # type: ignore[union-attr]
    prepare_executors(session, (*config.roots, *config.archives))
    return session


def jvm_settings(master: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of a JVM that this process starts itself.

    Raises:
        SetupMissing: A jar is missing.
        ConnectRefused: The environment, or the master, requests Spark Connect.
    """
    refuse_connect({**environ, "MELTLINE_MASTER": master})
    return {
        "spark.master": master,
        "spark.jars": ",".join(jar_paths(environ)),
        "spark.driver.extraJavaOptions": java_options(),
    }


def _start_jvm(settings: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Starts this process's JVM if there is none, without the catalogs' settings.

    A session that starts the JVM passes every setting to `spark-submit` on its command line. One
    that finds it running sends them through a socket that only this process can use.
    """
    public = SparkConf(loadDefaults=False)
    for key, setting in settings.items():
        if not key.startswith("spark.sql.catalog."):
            public.set(key, setting)
    with _unheard(environ):
        SparkContext._ensure_initialized(conf=public)


@contextmanager
def _unheard(environ: Mapping[str, str]) -> Iterator[None]:
    """Redirects the output of a JVM that starts meanwhile to an unnamed file, for its lifetime.

    Its messages on modules, log and port do not matter to the user, and its errors are raised
    here. The output is shown if the JVM does not start, and always with `MELTLINE_DEBUG`.
    """
    if environ.get("MELTLINE_DEBUG"):
        yield
        return
    sys.stderr.flush()
    heard = os.dup(_STDERR)
    with TemporaryFile() as chatter:
        os.dup2(chatter.fileno(), _STDERR)
        try:
            yield
        except BaseException:
            chatter.seek(0)
            os.write(heard, chatter.read())
            raise
        finally:
            os.dup2(heard, _STDERR)
            os.close(heard)


def session_settings(config: Config) -> dict[str, str]:
    """Returns all settings of the session, catalogs included."""
    settings = {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        # A cluster may default these to true; then a lost file silently shortens a result.
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
    }
    for catalog in config.catalogs.values():
        settings.update(catalog_settings(catalog))
    return settings


def catalog_settings(catalog: CatalogConfig) -> dict[str, str]:
    """Returns the Spark catalog of a configured one (PyIceberg's property names translated)."""
    prefix = f"spark.sql.catalog.{spark_catalog(catalog)}"
    settings = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.catalog-impl": _CATALOG_CLASSES[catalog.type],
        f"{prefix}.uri": catalog.uri,
        f"{prefix}.warehouse": catalog.warehouse,
        f"{prefix}.cache-enabled": "false",
        **{f"{prefix}.{key}": text for key, text in _properties(catalog).items()},
    }
    if catalog.type == "sql":
        settings.update(_jdbc_settings(prefix, catalog))
    if catalog.type == "rest":  # by default its client requests no credentials
        settings.setdefault(f"{prefix}.{_DELEGATION}", "vended-credentials")
    for key, text in store_settings(catalog.warehouse, catalog.properties).items():
        settings[f"{prefix}.{key}"] = text
    return {key: text for key, text in settings.items() if text}


def _properties(catalog: CatalogConfig) -> Mapping[str, str]:
    return java_words(catalog) if catalog.type == "glue" else catalog.properties


def file_io_settings(catalog: CatalogConfig) -> tuple[str, dict[str, str]]:
    """Returns the `FileIO` class and settings of a catalog, for tables loaded without it."""
    prefix = f"spark.sql.catalog.{spark_catalog(catalog)}."
    settings = {
        key.removeprefix(prefix): text
        for key, text in catalog_settings(catalog).items()
        if key.startswith(prefix)
    }
    return settings.get("io-impl", "org.apache.iceberg.io.ResolvingFileIO"), settings


def spark_catalog(catalog: CatalogConfig) -> str:
    """Returns the catalog's name in Spark. A JDBC catalog finds its rows by this name."""
    return catalog.catalog_name if catalog.type == "sql" else catalog.name


def prepare_catalog(spark: SparkSession, catalog: CatalogConfig) -> None:
    """Makes the client create the missing tables that a JDBC catalog keeps itself.

    Raises:
        SetupMissing: They could not be created.
    """
    with preparing(catalog.name):
        spark.sql(f"SHOW NAMESPACES IN {quote_part(spark_catalog(catalog))}").collect()


def spark_identifier(catalogs: Mapping[str, CatalogConfig], table: TableName) -> str:
    """Returns a table's name in this session's Spark SQL."""
    config = catalogs[table.catalog]
    held = as_held(table) if config.type in ("hive", "glue") else table
    return str(replace(held, catalog=spark_catalog(config)))


def _jdbc_settings(prefix: str, catalog: CatalogConfig) -> dict[str, str]:
    settings = {} if may_migrate(catalog) else {f"{prefix}.jdbc.schema-version": "V1"}
    if catalog.uri.startswith("sqlite:///"):
        # SQLAlchemy decodes the path of its URL, JDBC takes it raw.
        file, _, query = catalog.uri.removeprefix("sqlite:///").partition("?")
        settings[f"{prefix}.uri"] = f"jdbc:sqlite:{unquote(file)}" + (f"?{query}" if query else "")
        settings[f"{prefix}.jdbc.busy_timeout"] = "30000"
    else:
        settings.update(_server_settings(prefix, catalog.uri))
    return settings


def _server_settings(prefix: str, uri: str) -> dict[str, str]:
    scheme, _, address = uri.partition("://")
    authority, slash, database = address.partition("/")
    user, at, server = authority.rpartition("@")
    settings = {f"{prefix}.uri": f"jdbc:{scheme.split('+')[0]}://{server}{slash}{database}"}
    if at:
        name, _, password = user.partition(":")
        settings |= {f"{prefix}.jdbc.user": name, f"{prefix}.jdbc.password": password}
    return settings
