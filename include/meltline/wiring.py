"""Composition root: the one module that builds adapters and passes them to the steps.

Commands, Spark apps and the Python API call it. The app layer sees ports alone.
"""

import getpass
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_cache import ArchiveBook
from meltline.adapters.archive.permanent_store import DeepCopies
from meltline.adapters.catalogs.catalogs import open_catalog, policy_stores, server_probes
from meltline.adapters.gx.engine import GreatExpectationsEngine, imported_meanwhile
from meltline.adapters.object_store.cloud_objects import STORAGE_CLASS
from meltline.adapters.object_store.deleter import StoreDeleter
from meltline.adapters.object_store.folder_listing import FolderStores
from meltline.adapters.object_store.pace import Pace
from meltline.adapters.object_store.stores import ObjectStores
from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.app.ownership.half_seen import misplaced_now
from meltline.app.safety.arming import require_sandbox
from meltline.app.services import ColdTier, ReadContext, Retrieval, SweepServices
from meltline.concurrency import use_threads
from meltline.config.load import Config
from meltline.domain.clock import NOW, Clock, FixedClock, WallClock
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.redaction import discreet
from meltline.domain.units import parse_instant
from meltline.extras import refuse_connect_object, require_spark
from meltline.lazy import late
from meltline.ports import (
    Catalog,
    ChunkFileReader,
    Committer,
    CopyReader,
    GuardedWriter,
    LedgerReader,
    ManifestReader,
    ObjectReader,
    SessionEngine,
    SnapshotReader,
    SqlEngine,
)
from meltline.process_tuning import collect_seldom


def to_stderr(line: str) -> None:
    """Prints a progress message to stderr: stdout carries only the result."""
    with suppress(BrokenPipeError):  # the reader has closed the pipe: the work continues
        print(discreet(line), file=sys.stderr, flush=True)


class Wiring:
    """Builds the objects that a command or app needs from one configuration, once each."""

    def __init__(
        self,
        config: Config,
        environ: Mapping[str, str] = os.environ,
        progress: Callable[[str], None] = to_stderr,
    ) -> None:
        self.config = config
        self._environ = environ
        self._progress = progress
        self.pace = Pace(config.io.requests_per_second)
        self.store = ObjectStores(_store_properties(config), self.pace)
        use_threads(config.io.parallelism)
        self.clock = self._clock()

    def _clock(self) -> Clock:
        text = self._environ.get(NOW)
        if not text:
            return WallClock()
        require_sandbox(self.config, self.store, f"{NOW}={text}")
        try:
            return FixedClock(parse_instant(text))
        except ValueError as error:
            raise UsageInvalid(
                f"{NOW} is not an instant",
                object=NOW,
                expected="ISO 8601 with an offset, such as 2026-11-21T06:00:00Z",
                found=text,
                next=f"unset {NOW}, or give it an offset",
            ) from error

    @property
    def who(self) -> str:
        """Returns the name for records of decisions: `MELTLINE_USER`, else the login name."""
        name = self._environ.get("MELTLINE_USER", "")
        with suppress(OSError, KeyError):
            name = name or getpass.getuser()
        return name or "unknown"

    def ledgers(self) -> ReadContext:
        """Builds the context of commands without a JVM: catalogs, control ledger, its tables."""
        cold = self._cold()
        catalogs = {
            name: open_catalog(catalog, self.store)
            for name, catalog in self.config.catalogs.items()
            if name != self.config.cold
        }
        return ReadContext(
            config=self.config,
            clock=self.clock,
            catalogs=catalogs,
            editors=catalogs,
            registrars=catalogs,
            store=self.store,
            folders=late(self._folders),
            writer=self.store,
            remover=self.store,
            resolver=self.store,
            manifests=late(_manifests),
            control=sql_control_ledger(
                self.config.control, self.clock, access=self.config.local_access
            ),
            reader=late(partial(self._ledger_reader, catalogs[self.config.hot])),
            progress=self._progress,
            who=self.who,
            cold=cold,
            copies=None if cold is None else late(partial(_copies, self.store, cold.store)),
            chunk_files=late(partial(_chunk_files, self.store)),
            cold_chunk_files=None if cold is None else late(partial(_chunk_files, cold.store)),
            deep=self._deep(),
            policy_stores=policy_stores(self.config, catalogs),
            probes=server_probes(self.config, catalogs, self.store),
        )

    def _folders(self) -> FolderStores:
        return FolderStores(_store_properties(self.config), self.pace, self.store.vended)

    def _ledger_reader(self, catalog: Catalog) -> LedgerReader:
        from meltline.adapters.file_index.index_reader import (  # noqa: PLC0415 - Arrow
            IcebergLedgerReader,
        )

        hot = self.config.catalogs[self.config.hot]
        return IcebergLedgerReader(hot, catalog, self.store, self.config.ledger_namespace)

    def _cold(self) -> ColdTier | None:
        store = self._cold_store
        if store is None:
            return None
        settings = self.config.catalogs[self.config.cold]
        catalog = open_catalog(settings, store)
        return ColdTier(
            catalog,
            store,
            settings.warehouse,
            editor=catalog,
            writer=store,
            remover=store,
            resolver=store,
            registrar=catalog,
        )

    @cached_property
    def _cold_store(self) -> ObjectStores | None:
        if not self.config.cold:
            return None
        return ObjectStores(dict(self.config.catalogs[self.config.cold].properties), self.pace)

    def _deep(self) -> DeepCopies | None:
        """Builds the permanent store, which uses cold's credentials."""
        if self._cold_store is None or not self.config.deep:
            return None
        properties = dict(self.config.catalogs[self.config.cold].properties)
        if self.config.deep_storage_class:
            properties[STORAGE_CLASS] = self.config.deep_storage_class
        cold, deep = self._cold_store.unpaced(), ObjectStores(properties)
        return DeepCopies(Stores(cold, deep, self.config.deep, pace=self.pace), cold)

    def _session(self, app: str, config: Config) -> Any:
        """Starts or joins the Spark session of the process, with the configured catalogs."""
        require_spark()
        from meltline.adapters.spark.session import open_session  # noqa: PLC0415 - starts slowly

        self._progress("starting Spark")
        return open_session(config, app, self._environ)

    def services(self, app: str, run_id: str = "", *, judges: bool = False) -> SweepServices:
        """Builds everything that steps need; starts, or joins, the process's Spark session.

        Args:
            app: The session's name in Spark's UI.
            run_id: The run that this step belongs to.
            judges: Whether plans will certainly be evaluated: the gate engine is then imported
                meanwhile.
        """
        require_spark()
        from meltline.adapters.chunks.spark_parts import spark_parts  # noqa: PLC0415 - starts slowly
        from meltline.adapters.file_index.file_index import spark_file_ledger  # noqa: PLC0415
        from meltline.adapters.index_tables.tables_io import LedgerTables  # noqa: PLC0415
        from meltline.adapters.orphan_scan.scanner import SparkSweeper  # noqa: PLC0415
        from meltline.adapters.proofs.proof_cache import ProofTable  # noqa: PLC0415
        from meltline.adapters.proofs.proof_reader import SparkProofReader  # noqa: PLC0415
        from meltline.adapters.spark.session import spark_catalog  # noqa: PLC0415

        context = replace(self.ledgers(), run_id=run_id)
        collect_seldom()
        with imported_meanwhile() if judges else nullcontext():
            spark = self._session(app, self.config)
        self.pace.workers = spark.sparkContext.defaultParallelism
        hot = self.config.catalogs[self.config.hot]
        ledger = (spark, self.store, spark_catalog(hot), self.config.ledger_namespace)
        book = ProofTable(LedgerTables(*ledger), self.clock)
        return SweepServices(
            **{name: getattr(context, name) for name in ReadContext.__dataclass_fields__},
            files=spark_file_ledger(LedgerTables(*ledger), self.store),
            committer=self._committer(spark, context),
            deleter=StoreDeleter(
                self.store, misplaced_now(self.config, self.store, context.control)
            ),
            proofs=SparkProofReader(spark, self.store, book),
            sweeper=SparkSweeper(
                LedgerTables(*ledger),
                self._folders(),
                self.config.catalogs,
            ),
            gate=self.gate(run_id),
            lay_foundations=partial(self._lay_foundations, context),
            **spark_parts(spark, self.config.catalogs),
            **(self._archive(spark, context, context.cold) if context.cold else {}),
        )

    def _lay_foundations(self, context: ReadContext) -> None:
        from meltline.adapters.catalogs.catalog_setup import lay_foundation  # noqa: PLC0415 - rare

        tiers = [
            context.catalogs[self.config.hot],
            *([context.cold.catalog] if context.cold else []),
        ]
        for catalog in tiers:
            lay_foundation(self.config.catalogs[catalog.name], catalog, self.config.local_access)

    def _committer(self, spark: Any, context: ReadContext) -> Committer:
        from meltline.adapters.catalogs.rest.factory import rest_committer  # noqa: PLC0415 - PyIceberg
        from meltline.adapters.spark.committer import JvmCommitter  # noqa: PLC0415 - starts slowly

        over_rest = rest_committer(context.catalogs[self.config.hot], self.store)
        return over_rest or JvmCommitter(spark, self.config.catalogs)

    def gate(self, run_id: str) -> GreatExpectationsEngine:
        """Builds the gate engine; its Data Docs page is named after the run. Starts no JVM."""
        return GreatExpectationsEngine(
            self.config.limits,
            self.config.gates.ttl,
            self.config.docs_folder,
            run_id,
            self.config.local_access,
        )

    def _archive(self, spark: Any, context: ReadContext, cold: ColdTier) -> dict[str, Any]:
        """Builds the writers of cold, and the row comparer that the gate reads it with."""
        from meltline.adapters.archive.archive import ColdArchive  # noqa: PLC0415 - Arrow
        from meltline.adapters.archive.spark_archive import SparkCrew  # noqa: PLC0415 - starts slowly
        from meltline.adapters.spark.row_comparer import SparkRowComparer  # noqa: PLC0415
        from meltline.adapters.spark.session import prepare_catalog  # noqa: PLC0415

        store, catalogs = self._cold_store, self.config.catalogs
        assert store is not None  # the cold tier has it
        catalog = open_catalog(catalogs[self.config.cold], store)
        book = ArchiveBook(context.control.copies, cold.writer, cold.warehouse)
        return {
            "archive": ColdArchive(
                self._tiers(), catalog, partial(SparkCrew, spark), book, self.clock
            ),
            "rows": SparkRowComparer(spark, catalogs, cold.warehouse),
            "prepare_cold": partial(prepare_catalog, spark, catalogs[self.config.cold]),
        }

    def _tiers(self) -> Stores:
        """Returns both stores, for copies from hot to cold; the archive counts its own requests."""
        cold = self._cold_store
        assert cold is not None  # only code with a cold tier copies
        return Stores(
            hot=self.store.unpaced(),
            cold=cold.unpaced(),
            warehouse=self.config.catalogs[self.config.cold].warehouse,
            pace=self.pace,
        )

    def retrieval(self) -> Retrieval:
        """Builds the retrieval of archived files; starts, or joins, the process's Spark session."""
        from meltline.adapters.archive.retrieval import ColdRetriever  # noqa: PLC0415 - Arrow
        from meltline.adapters.archive.spark_archive import SparkCrew  # noqa: PLC0415 - starts slowly

        cold = self._cold_store
        assert cold is not None  # a restore has read from it by now
        spark = self._session("restore", self.config)
        back = replace(self._tiers(), hot=cold.unpaced(), cold=self.store.unpaced())
        return Retrieval(
            ColdRetriever(back, partial(SparkCrew, spark)),
            late(partial(_copies, cold, self.store)),
        )

    def snapshot_reader(self) -> SnapshotReader:
        """Builds the reader of rows; starts, or joins, the process's Spark session."""
        from meltline.adapters.spark.snapshot_reader import SparkSnapshotReader  # noqa: PLC0415

        return SparkSnapshotReader(self._session("query", self.config), self.config.catalogs)

    def sql_engine(self, standing: ObjectName) -> SqlEngine:
        """Builds the SQL engine in a catalog or schema; starts, or joins, the process's session."""
        from meltline.adapters.chunks.rows import complete_frame  # noqa: PLC0415
        from meltline.adapters.spark.sql_engine import SparkSqlEngine  # noqa: PLC0415

        # SQL never writes to the archive: the session does not know its catalog (AR-34).
        config = _without_cold(self.config)
        engine = SparkSqlEngine(self._session("sql", config), self.config, complete_frame)
        engine.stand(standing)
        return engine

    def guarded_writer(self, rows: Any) -> GuardedWriter:
        """Builds the writer for such rows: a DataFrame, by its own session, or an Arrow table."""
        from meltline.adapters.chunks.guarded_writer import writer_of  # noqa: PLC0415

        refuse_connect_object(rows)
        return writer_of(rows, self.config.catalogs)

    def sql_engine_of(self, spark: Any) -> SessionEngine:
        """Builds the SQL engine over the caller's own `SparkSession`, a classic one."""
        refuse_connect_object(spark)
        from meltline.adapters.chunks.rows import complete_frame  # noqa: PLC0415
        from meltline.adapters.spark.sql_engine import SparkSqlEngine  # noqa: PLC0415

        return SparkSqlEngine(spark, self.config, complete_frame)


def _manifests() -> ManifestReader:
    from meltline.adapters.manifests.fastavro_reader import AvroManifests  # noqa: PLC0415 - Avro

    return AvroManifests()


def _copies(hot: ObjectReader, cold: ObjectReader) -> CopyReader:
    from meltline.adapters.archive.copy_reader import StoreCopyReader  # noqa: PLC0415 - PyIceberg

    return StoreCopyReader(hot, cold)


def _chunk_files(store: ObjectReader) -> ChunkFileReader:
    from meltline.adapters.chunks.file_reader import AvroChunkFiles  # noqa: PLC0415 - Avro

    return AvroChunkFiles(store)


def _without_cold(config: Config) -> Config:
    hot = {name: catalog for name, catalog in config.catalogs.items() if name != config.cold}
    return replace(config, catalogs=hot, cold="", deep="")


def step_jvm(
    master: str, imports: Callable[[], None], environ: Mapping[str, str] = os.environ
) -> AbstractContextManager[Any]:
    """Starts a JVM for the steps of a run; each is a fork of this process, with its imports done.

    Args:
        master: Spark's master.
        imports: Imports the modules that are not built here, while the JVM starts.
        environ: Names the jars.

    Raises:
        SetupMissing: A jar does not exist.
    """
    require_spark()
    from meltline.adapters.spark.session import jvm_settings  # noqa: PLC0415 - starts slowly
    from meltline.adapters.spark.shared_jvm import jvm_for_forks  # noqa: PLC0415

    settings = {**jvm_settings(master, environ), "spark.ui.enabled": "false"}
    return jvm_for_forks(settings, imports)


def _store_properties(config: Config) -> dict[str, str]:
    properties: dict[str, str] = {}
    for name, catalog in config.catalogs.items():
        if name not in (config.hot, config.cold):
            properties.update(catalog.properties)
    return {**properties, **config.catalogs[config.hot].properties}
