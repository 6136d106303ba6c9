"""Probes a REST server: whether expirations over it lose nothing, and which features it has.

`meltline doctor --probe-catalog` runs it on a scratch namespace with one table, through the code
that expires. It touches no other table, and removes what it created.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pyiceberg.exceptions import BadRequestError

from meltline.adapters.catalogs.rest.committer import RestCommitter
from meltline.adapters.catalogs.rest.protocol import (
    CommitRaced,
    Json,
    LoadedTable,
    RestProtocol,
    refused,
)
from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.domain.clock import Clock
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import to_millis
from meltline.ports import ObjectReader, ObjectRemover, ProbedFact

_SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
_LONGEST_WORDS = 200
_DROPS = "a drop leaves the files, and they can be registered"


@dataclass
class RestProbe:
    """The port `ServerProbe` for REST catalogs."""

    tables: RestTables
    files: ObjectReader
    remover: ObjectRemover
    clock: Clock
    space: str = field(default_factory=lambda: f"meltline_probe_{uuid4().hex[:12]}")

    @property
    def server(self) -> str:
        """Fingerprint of the server."""
        return self.tables.protocol.server

    @property
    def _name(self) -> TableName:
        return TableName(self.tables.name, (self.space,), "t")

    def facts(self) -> Sequence[ProbedFact]:
        """Asks all questions and returns the answers. See the port."""
        facts: list[ProbedFact] = []
        try:
            for question, is_needed, ask in self._questions():
                fact = _answer(question, ask, is_needed=is_needed)
                facts.append(fact)
                if is_needed and not fact.is_so:
                    break
        finally:
            self._clean_up()
        return facts

    def drop_scratch(self) -> str:
        """Drops a table without snapshots, for the probe's manifests do not exist.

        A server that reads manifests before it deletes would fail on them.

        See the port.
        """
        try:
            self.tables.protocol.catalog.create_namespace((self.space,))
            self._create()
            location = self._load().metadata_location
            self.tables.protocol.drop(self._name)
        finally:
            self._clean_up()
        return location

    def deleted_since(self, metadata_location: str) -> bool:
        """Registers the file again: a server that vends credentials does so for tables only.

        See the port.
        """
        try:
            self.tables.register(self._name, metadata_location)
            self.tables.location(self._name)  # caches the vended credentials
        except Exception as failure:  # a server may report in any way that the file is gone
            if self.files.size(metadata_location) is not None:
                words = f"{type(failure).__name__}: {failure}"[:_LONGEST_WORDS]
                raise refused(self._name, words) from failure
            return True
        else:
            return self.files.size(metadata_location) is None
        finally:
            self._clean_up(kept=metadata_location)

    def _questions(self) -> Iterator[tuple[str, bool, Callable[[], str]]]:
        yield "it shows all branches of a table", True, self._shows_everything
        yield "namespaces keep properties", True, self._namespace_properties
        yield "it commits, and names the metadata file that it started from", True, self._commits
        yield "a ref that has moved stops a commit", True, self._refuses_moved_refs
        yield "another table of the name stops a commit", True, self._refuses_another_table
        yield "a ref that comes meanwhile can be given its snapshot again", True, self._restores
        yield "a table can be renamed", True, self._renames
        yield _DROPS, True, self._registers
        yield "it gives credentials with a table", False, self._vends
        yield "it lets clients sign their own requests", False, self._leaves_signing
        yield "it tells whether a table has moved by its ETag", False, self._tags_answers

    # --- the questions ----------------------------------------------------------------------

    def _shows_everything(self) -> str:
        if places := self.tables.half_seen():
            raise _No(
                "Nessie shows one branch of its own only, and one snapshot of a table", places
            )
        return ""

    def _namespace_properties(self) -> str:
        self.tables.set_namespace_properties((self.space,), {"a": "1", "b": "2"})
        self.tables.set_namespace_properties((self.space,), {"a": "3"}, ["b"])
        properties = self.tables.protocol.catalog.load_namespace_properties((self.space,))
        if properties.get("a") != "3" or "b" in properties:
            raise _No(f"after a change it has {properties}")
        return ""

    def _commits(self) -> str:
        self._create()
        for snapshot in range(1, 5):
            before = self._load().metadata_location
            done = self._append(snapshot)
            if len(done.metadata.get("snapshots") or ()) < snapshot:
                raise _No("it keeps one snapshot of a table and no history", self._around(done))
            if done.replaced != before:
                raise _No(f"{done.replaced or 'no file'} and not {before}")
        return f"metadata as {self._load().metadata_location.rsplit('/', 1)[-1]}"

    def _around(self, table: LoadedTable) -> tuple[str, ...]:
        """Returns the parent folder of the server's tables, by the scratch table's location."""
        at, _, folder = str(table.metadata["location"]).rstrip("/").rpartition("/")
        outer, _, space = at.rpartition("/")
        return (outer if space.startswith(self.space) and folder else at,)

    def _refuses_moved_refs(self) -> str:
        self._set_ref("moved", 3)
        self._set_ref("moved", 4)
        old = {"type": "assert-ref-snapshot-id", "ref": "moved", "snapshot-id": 3}
        absent = {"type": "assert-ref-snapshot-id", "ref": "moved", "snapshot-id": None}
        for requirement in (old, absent):
            self._require_refused(requirement, f"that asserts {requirement['snapshot-id']}")
        return ""

    def _refuses_another_table(self) -> str:
        another = {"type": "assert-table-uuid", "uuid": str(uuid4())}
        self._require_refused(another, "for a table of another UUID")
        return ""

    def _require_refused(self, requirement: Json, words: str) -> None:
        change = {"action": "set-properties", "updates": {"probed": "true"}}
        with suppress(CommitRaced):
            self.tables.protocol.commit(self._name, [requirement], [change])
            raise _No(f"it took a commit {words}")

    def _restores(self) -> str:
        """Sets a tag between the committer's load and its commit."""
        table = self._load()
        plan = self._plan(table)
        protocols = {self.tables.name: _Interrupted(self.tables, lambda: self._set_ref("late", 1))}
        outcome = RestCommitter(protocols, self.files, self.clock).expire(plan, plan.base_location)
        after = self._load().metadata
        ids = {s["snapshot-id"] for s in after["snapshots"]}
        late = (after.get("refs") or {}).get("late", {}).get("snapshot-id")
        if outcome is None or late != 1 or 2 in ids or 1 not in ids:
            raise _No(f"snapshots {sorted(ids)}, the tag on {late}")
        return "the server lost it first" if outcome.restored else "the server kept it"

    def _renames(self) -> str:
        other = TableName(self.tables.name, (self.space,), "t2")
        catalog, at = self.tables.protocol.catalog, self._load().metadata_location
        catalog.rename_table((self.space, "t"), (self.space, "t2"))
        if self.tables.location(other) != at:
            raise _No("it stands elsewhere afterwards")
        catalog.rename_table((self.space, "t2"), (self.space, "t"))
        return ""

    def _registers(self) -> str:
        at = self._load().metadata_location
        try:
            self.tables.unregister(self._name, at)
        except BadRequestError as error:
            raise _No(f"it drops a table only if it may delete its files: {error}") from error
        if self.files.size(at) is None:
            raise _No("a drop without purge deletes metadata files")
        self.tables.register(self._name, at)
        return "" if self._load().metadata_location == at else "under another metadata file"

    def _vends(self) -> str:
        table = self._load()
        keys = [key for key in table.config if "secret" in key or "token" in key]
        if not keys and not table.credentials:
            raise _No("")
        return ", ".join(keys) or f"{len(table.credentials)} prefixes"

    def _leaves_signing(self) -> str:
        if str(self._load().config.get("s3.remote-signing-enabled", "")).lower() == "true":
            raise _No("it signs each request itself: Meltline cannot read there")
        return ""

    def _tags_answers(self) -> str:
        etag = self.tables.protocol.etag(self._name)
        if not etag:
            raise _No("")
        return ""

    # --- the scratch table ------------------------------------------------------------------

    def _create(self) -> None:
        catalog = self.tables.protocol.catalog
        body: Any = {"name": "t", "schema": _SCHEMA, "properties": {"format-version": "2"}}
        url = f"{catalog.url('namespaces')}/{self.space}/tables"
        catalog._session.post(url, json=body).raise_for_status()
        self.tables.location(self._name)  # caches the vended credentials, if there are any

    def _load(self) -> LoadedTable:
        return self.tables.protocol.load(self._name)

    def _append(self, snapshot_id: int) -> LoadedTable:
        table = self._load().metadata
        main = (table.get("refs") or {}).get("main")
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "sequence-number": table["last-sequence-number"] + 1,
            "timestamp-ms": max(to_millis(datetime.now(UTC)), table["last-updated-ms"]),
            "manifest-list": f"{table['location']}/metadata/probe-{snapshot_id}.avro",
            "summary": {"operation": "append"},
            "schema-id": table["current-schema-id"],
        }
        if main is not None:
            snapshot["parent-snapshot-id"] = main["snapshot-id"]
        added = {"action": "add-snapshot", "snapshot": snapshot}
        return self.tables.protocol.commit(
            self._name, [], [added, _ref("main", snapshot_id, "branch")]
        )

    def _set_ref(self, name: str, snapshot_id: int) -> None:
        self.tables.protocol.commit(self._name, [], [_ref(name, snapshot_id, "tag")])

    def _plan(self, table: LoadedTable) -> Plan:
        now, location = self.clock.now(), table.metadata_location
        return Plan(
            id=f"probe-{self.space[-12:]}",
            run_id="probe",
            kind=PlanKind.EXPIRE,
            table=self._name,
            table_uuid=str(table.metadata["table-uuid"]),
            digest="",
            as_of=now,
            created_at=now,
            base_location=location,
            snapshots=(1, 2),
            committed_base=location,
        )

    def _clean_up(self, kept: str = "") -> None:
        """Removes what the probe created; the server's own listing shows anything that remains.

        Args:
            kept: A file that stays.
        """
        for name in ("t", "t2"):
            scratch = TableName(self.tables.name, (self.space,), name)
            with suppress(Exception):
                files = _files_of(self.tables.protocol, scratch)
                _drop(self.tables.protocol, scratch)
                self.remover.delete([file for file in files if file != kept])
        with suppress(Exception):
            self.tables.protocol.catalog.drop_namespace((self.space,))


def _files_of(protocol: RestProtocol, scratch: TableName) -> Sequence[str]:
    """Returns the metadata files of a scratch table; none if it cannot be loaded."""
    try:
        table = protocol.load(scratch)
    except MeltlineError:
        return ()
    log = table.metadata.get("metadata-log") or []
    return [*(entry["metadata-file"] for entry in log), table.metadata_location]


def _drop(protocol: RestProtocol, scratch: TableName) -> None:
    """Drops a scratch table, with its files if the server insists on that."""
    try:
        protocol.drop(scratch)
    except BadRequestError:
        protocol.catalog.purge_table((*scratch.namespace, scratch.name))


class _No(Exception):
    """A negative answer with its reason, and the locations of a server that shows only a part."""

    def __init__(self, why: str, half_seen: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.half_seen = half_seen


class _Interrupted:
    """A protocol whose first commit follows a concurrent one."""

    def __init__(self, tables: RestTables, first: Callable[[], object]) -> None:
        self._protocol, self._first = tables.protocol, [first]

    def load(self, name: TableName, *, refs_only: bool = False) -> LoadedTable:
        return self._protocol.load(name, refs_only=refs_only)

    def commit(
        self, name: TableName, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> LoadedTable:
        while self._first:
            self._first.pop()()
        return self._protocol.commit(name, requirements, updates)


def _answer(question: str, ask: Callable[[], str], *, is_needed: bool) -> ProbedFact:
    try:
        return ProbedFact(question, True, ask(), is_needed)
    except _No as no:
        return ProbedFact(question, False, str(no), is_needed, no.half_seen)
    except MeltlineError as error:
        problem = f"{error.message}: {error.found}"
    except Exception as error:  # a server may fail in any way, and that is the answer
        problem = f"{type(error).__name__}: {error}"
    return ProbedFact(question, False, problem[:_LONGEST_WORDS], is_needed)


def _ref(name: str, snapshot_id: int, kind: str) -> Json:
    return {
        "action": "set-snapshot-ref",
        "ref-name": name,
        "type": kind,
        "snapshot-id": snapshot_id,
    }
