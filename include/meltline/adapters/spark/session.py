"""The Spark session, with the catalogs of `meltline.yaml` derived inside the app.

Catalog settings never travel as `--conf`: their secrets would show in the process list. Spark hides
them on its pages, in its event log and in answers of `SET`.

The properties are PyIceberg's words; Iceberg's own clients know most of them, and the rest is
turned here, so that one configuration is for both.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryFile
from types import MappingProxyType
from urllib.parse import unquote

import pyspark.testing.utils  # noqa: F401 - PySpark asks it for NumPy at each call of the JVM
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
        config: Its catalogs become Spark's.
        app: Names the session for people.
        environ: Names the master and the jars.
        further: Settings that win over those that follow from the configuration.

    Raises:
        ConnectRefused: The environment asks for a session of Spark Connect.
        ExecutorsUnfit: Executors of a cluster lack what our code needs.
    """
    refuse_connect({**os.environ, **environ})
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if runs_here(environ.get("MELTLINE_MASTER", "local")):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else is to connect
    settings = {"spark.app.name": f"meltline {app}", **session_settings(config), **further}
    if "PYSPARK_GATEWAY_PORT" not in environ:  # not under spark-submit, which has set these
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
    """What a JVM is started with, where nobody has started it for us.

    Raises:
        SetupMissing: A jar is not there.
        ConnectRefused: The environment, or the master, asks for Spark Connect.
    """
    refuse_connect({**environ, "MELTLINE_MASTER": master})
    return {
        "spark.master": master,
        "spark.jars": ",".join(jar_paths(environ)),
        "spark.driver.extraJavaOptions": java_options(),
    }


def _start_jvm(settings: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Starts this process's JVM, where there is none, and tells it nothing of the catalogs.

    A session that starts it itself hands every setting to `spark-submit` as words of its command
    line. One that finds it running sets them through a socket that only this process can use.
    """
    public = SparkConf(loadDefaults=False)
    for key, setting in settings.items():
        if not key.startswith("spark.sql.catalog."):
            public.set(key, setting)
    with _unheard(environ):
        SparkContext._ensure_initialized(conf=public)


@contextmanager
def _unheard(environ: Mapping[str, str]) -> Iterator[None]:
    """Has a JVM that is started meanwhile print to a file without a name, for all its life.

    What it says of its modules, its log and its port is nothing to those who wait for an answer;
    what goes wrong in it is raised here. It is told where the JVM does not start, and all of it
    with `MELTLINE_DEBUG`.
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
    """Everything the session must be told, catalogs included."""
    settings = {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        # A cluster may default these to true; they turn a lost file into a shorter answer.
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
    }
    for catalog in config.catalogs.values():
        settings.update(catalog_settings(catalog))
    return settings


def catalog_settings(catalog: CatalogConfig) -> dict[str, str]:
    """The Spark catalog that stands for a configured one (PyIceberg's words turned to Spark's)."""
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
    if catalog.type == "rest":  # else its client asks for no keys, whatever the server could give
        settings.setdefault(f"{prefix}.{_DELEGATION}", "vended-credentials")
    for key, text in store_settings(catalog.warehouse, catalog.properties).items():
        settings[f"{prefix}.{key}"] = text
    return {key: text for key, text in settings.items() if text}


def _properties(catalog: CatalogConfig) -> Mapping[str, str]:
    return java_words(catalog) if catalog.type == "glue" else catalog.properties


def file_io_settings(catalog: CatalogConfig) -> tuple[str, dict[str, str]]:
    """What reads a catalog's files, for tables that no catalog loads: a class, and its settings."""
    prefix = f"spark.sql.catalog.{spark_catalog(catalog)}."
    settings = {
        key.removeprefix(prefix): text
        for key, text in catalog_settings(catalog).items()
        if key.startswith(prefix)
    }
    return settings.get("io-impl", "org.apache.iceberg.io.ResolvingFileIO"), settings


def spark_catalog(catalog: CatalogConfig) -> str:
    """The catalog's name in Spark. A JDBC catalog finds its rows by this name."""
    return catalog.catalog_name if catalog.type == "sql" else catalog.name


def prepare_catalog(spark: SparkSession, catalog: CatalogConfig) -> None:
    """Has the client make the tables that a JDBC catalog keeps itself, where they are missing.

    Raises:
        SetupMissing: It could not.
    """
    with preparing(catalog.name):
        spark.sql(f"SHOW NAMESPACES IN {quote_part(spark_catalog(catalog))}").collect()


def spark_identifier(catalogs: Mapping[str, CatalogConfig], table: TableName) -> str:
    """A table's name as this session's Spark SQL knows it."""
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
