"""Tables of a REST catalog, through PyIceberg's client and the protocol's own documents.

The server writes the metadata, so it handles unknown fields and every format. Each ref is asserted
as it was read. No requirement of the protocol asserts a property: of two writers of one property
the later one wins.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from meltline.adapters.catalogs.connection_errors import no_answer
from meltline.adapters.catalogs.rest.connection import connect
from meltline.adapters.catalogs.rest.protocol import CommitRaced, Json, LoadedTable, RestProtocol
from meltline.adapters.catalogs.table_commits import (
    a_view,
    always_others,
    commit_edit,
    fate_unknown,
    not_as_expected,
    open_document,
    require_writable,
)
from meltline.adapters.catalogs.table_renames import (
    Namespaces,
    first_files,
    name_taken,
    namespace_taken,
    not_empty,
    registrable,
)
from meltline.adapters.object_store.vended import VendedPrefixes, vended
from meltline.concurrency import thread_map
from meltline.config.load import CatalogConfig
from meltline.domain.clock import WallClock
from meltline.domain.deletion.half_seen import is_place
from meltline.domain.errors import (
    CatalogReadOnly,
    CatalogUnlistable,
    NameConflict,
    TableNotFound,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import SnapshotRef
from meltline.ports import (
    CatalogEntry,
    CatalogListing,
    MetadataFiles,
    NewTable,
    OtherOwner,
    TableEdit,
    TableMove,
    VendedCredentials,
)
from meltline.retries import until_done


@dataclass(frozen=True)
class TableVendor:
    """The port `CredentialVendor` for one table. Executors receive it, and connect on their own."""

    config: CatalogConfig
    name: TableName

    def __call__(self, location: str) -> Sequence[VendedCredentials]:
        """Returns all credentials that the server gives with the table. See the port."""
        protocol = RestProtocol(self.config.name, lambda: connect(self.config))
        return credentials_of(protocol.load(self.name, refs_only=True))


def credentials_of(table: LoadedTable) -> Sequence[VendedCredentials]:
    """Returns the credentials that a server gave with a table."""
    return vended(
        {
            "metadata-location": table.metadata_location,
            "metadata": table.metadata,
            "config": table.config,
            "storage-credentials": table.credentials,
        }
    )


class RestTables:
    """A catalog behind the REST protocol; one load for each table returns its metadata file.

    Args:
        config: Its configuration.
        store: The store of its tables' metadata files.
        vended: Caches the credentials that the server gives with its tables; None if no reader
            uses them.
    """

    def __init__(
        self, config: CatalogConfig, store: MetadataFiles, vended: VendedPrefixes | None = None
    ) -> None:
        self._config = config
        self._store = store
        self._vended = vended
        address = f"{config.uri} {config.warehouse}"
        self.protocol = RestProtocol(config.name, partial(connect, config), address)

    @property
    def name(self) -> str:
        return self._config.name

    @property
    def observe_only(self) -> bool:
        return self._config.observe_only

    @property
    def hindrance(self) -> str:
        """Returns an empty text: nothing is known before the server is probed. See the port."""
        return ""

    def half_seen(self) -> tuple[str, ...]:
        """Returns its tables' possible locations if its server shows only a part of them."""
        return half_seen_places(self.protocol, self._config)

    def _catalog(self) -> RestCatalog:
        return self.protocol.catalog

    def listing(self) -> CatalogListing:
        """Lists every namespace level and table. See the port.

        Raises:
            CatalogUnlistable: Any part could not be listed, or a table could not be loaded.
        """
        try:
            return self._list()
        except CatalogUnlistable:
            raise
        except Exception as error:
            raise no_answer(self.name, "every namespace and table", error) from error

    def _list(self) -> CatalogListing:
        catalog = self._catalog()
        namespaces: dict[tuple[str, ...], Mapping[str, str]] = {}
        names: list[TableName] = []
        for namespace in _namespaces(catalog):
            namespaces[namespace] = catalog.load_namespace_properties(namespace)
            tables = catalog.list_tables(namespace)
            names += [TableName(self.name, namespace, table[-1]) for table in tables]
        names.sort()
        locations = thread_map(self.location, names)
        entries = tuple(map(CatalogEntry, names, locations))
        half_seen = self.half_seen()
        return CatalogListing(entries, namespaces, self.protocol.server, half_seen)

    def other_owners(self) -> Sequence[OtherOwner]:
        """Returns the views of a server that has them, with one load for each. See the port."""
        try:
            spaces = _namespaces(self._catalog())
            views = [view for space in spaces for view in self.protocol.views(space)]
            return list(thread_map(partial(_owner, self.protocol), sorted(views)))
        except Exception as error:
            raise no_answer(self.name, "every view", error) from error

    def location(self, name: TableName) -> str:
        try:
            table = self.protocol.load(name, refs_only=True)
        except TableNotFound as missing:
            raise (a_view(name) if _is_view(self._catalog(), name) else missing) from missing
        if self._vended is not None:
            self._vended.note(credentials_of(table), TableVendor(self._config, name))
        return table.metadata_location

    def edit_table(self, name: TableName, edit: TableEdit) -> str:
        """Changes a table; the server writes the metadata. See the port."""
        require_writable(self)
        location = until_done(lambda: self._committed(name, edit))
        if location is None:
            raise always_others(name)
        return location

    def _committed(self, name: TableName, edit: TableEdit) -> str | None:
        """Returns the edited table's metadata file; None if a concurrent commit came first."""
        location = self.location(name)
        document = open_document(self._store, name, location, WallClock())
        edit(document)
        if not document.is_changed:
            return location
        try:
            return self.protocol.commit(name, *as_updates(document)).metadata_location
        except CommitRaced:
            return None

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        self.edit_table(name, lambda document: document.set_properties(updates, removals))

    def set_namespace_properties(
        self,
        namespace: tuple[str, ...],
        updates: Mapping[str, str],
        removals: Sequence[str] = (),
        *,
        expected: Mapping[str, str | None] | None = None,
    ) -> None:
        require_writable(self)
        self._require_namespace(namespace)
        catalog = self._catalog()
        present = catalog.load_namespace_properties(namespace)
        for key, text in (expected or {}).items():
            if present.get(key) != text:
                raise not_as_expected(".".join(namespace), key, text, present.get(key, "none"))
        removed = {key for key in removals if key in present}
        catalog.update_namespace_properties(namespace, removals=removed, updates=dict(updates))

    def move(
        self,
        moves: Sequence[TableMove],
        *,
        create: Namespaces | None = None,
        remove: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """Renames tables one by one. See the port."""
        require_writable(self)
        catalog = self._catalog()
        for levels, properties in (create or {}).items():
            self._create_namespace(levels, properties)
        for move in moves:
            if move.source == move.target:
                # Unregisters and registers again, for no update could express such an edit.
                commit_edit(self, self._store, move.source, move.edit, WallClock())
            else:
                self._move(move)
        for levels in sorted(remove, key=len, reverse=True):
            try:
                catalog.drop_namespace(levels)
            except NoSuchNamespaceError:
                continue
            except NamespaceNotEmptyError as error:
                raise not_empty(self.name, levels, "something that is no Iceberg table") from error

    def _move(self, move: TableMove) -> None:
        """Edits, then renames; reverts the edit if the rename fails."""
        before: dict[str, str] = {}

        def edit(document: MetadataEditor) -> None:
            before.clear()
            before.update(document.state.properties)
            move.edit(document)

        self.edit_table(move.source, edit)
        self._require_namespace(move.target.namespace)
        try:
            rename(self._catalog(), move.source, move.target)
        except Exception as failure:
            after = self.protocol.load(move.source).metadata.get("properties") or {}
            self.set_table_properties(move.source, before, [k for k in after if k not in before])
            if isinstance(failure, TableAlreadyExistsError):
                raise name_taken(move.target) from failure
            raise fate_unknown(move.source, type(failure).__name__) from failure

    def _create_namespace(self, levels: tuple[str, ...], properties: Mapping[str, str]) -> None:
        try:
            self._catalog().create_namespace(levels, dict(properties))
        except NamespaceAlreadyExistsError as error:
            raise namespace_taken(self.name, levels) from error

    def _require_namespace(self, levels: tuple[str, ...]) -> None:
        with suppress(NamespaceAlreadyExistsError):
            self._catalog().create_namespace(levels)

    def swap(self, name: TableName, base: str, new: str) -> bool:
        """Unregisters a table and registers it again: for a moment no table has the name.

        Returns:
            False when its file was not the base; then nothing was changed.

        Raises:
            CommitConflict: It could not be registered; the base is registered again if possible.
        """
        try:
            if not self.unregister(name, base):
                return False
            self._register_new(name, new)
        except Exception as failure:
            with suppress(Exception):  # registered after all, or the name is taken
                self._register(name, base)
            raise fate_unknown(name, type(failure).__name__) from failure
        return True

    def register(
        self, name: TableName, metadata_location: str, edit: TableEdit | None = None
    ) -> None:
        require_writable(self)
        self._require_namespace(name.namespace)
        with registrable(self._store, name, metadata_location, edit, WallClock()) as location:
            if location == metadata_location:
                self._register(name, location)
            else:
                self._register_new(name, location)

    def _register_new(self, name: TableName, location: str) -> None:
        """Registers a file that only we have; if it is registered already, this request did it.

        A gateway may send a request twice, and the second one finds the name taken.
        """
        try:
            self._register(name, location)
        except NameConflict:
            with suppress(TableNotFound):  # a view has the name
                if self.location(name) == location:
                    return
            raise

    def _register(self, name: TableName, location: str) -> None:
        try:
            self._catalog().register_table((*name.namespace, name.name), location)
        except TableAlreadyExistsError as error:
            raise name_taken(name) from error

    def create(
        self, tables: Sequence[NewTable], namespaces: Namespaces | None = None
    ) -> Mapping[TableName, str]:
        """Registers new tables one by one, and removes them again if one fails. See the port."""
        require_writable(self)
        with first_files(self._store, tables, WallClock()) as at, ExitStack() as back:
            for levels, properties in (namespaces or {}).items():
                self._create_namespace(levels, properties)
                back.callback(self._catalog().drop_namespace, levels)
            created: dict[TableName, str] = {}
            for name, location in list(at.items()):
                self._require_namespace(name.namespace)
                self._register_new(name, location)
                created[name] = at.pop(name)
                back.callback(self._withdraw, name, location, at)
            back.pop_all()
        return created

    def _withdraw(self, name: TableName, location: str, at: dict[TableName, str]) -> None:
        """Removes a new table again; its file is deleted only if no other commit built on it."""
        if self.unregister(name, location):
            at[name] = location

    def unregister(self, name: TableName, metadata_location: str) -> bool:
        """Removes a table that still has the given metadata file. See the port.

        No drop has a condition. So the table is first renamed to a random name, under which no
        client commits, and is then checked for the last time. If the process is killed in between,
        it stays listed under that name.
        """
        require_writable(self)
        try:
            if self.location(name) != metadata_location:
                return False
            with under_another_name(self._catalog(), name) as aside:
                if self.location(aside) != metadata_location:
                    return False
                self.protocol.drop(aside)
        except (TableNotFound, NoSuchTableError):
            return False
        return True


def _namespaces(catalog: RestCatalog) -> Iterator[tuple[str, ...]]:
    """Yields the namespaces of every level."""
    waiting = list(catalog.list_namespaces())
    while waiting:
        namespace = tuple(waiting.pop())
        waiting.extend(catalog.list_namespaces(namespace))
        yield namespace


def _owner(protocol: RestProtocol, name: TableName) -> OtherOwner:
    view = protocol.load_view(name)
    folder, uuid = (str(view.metadata.get(key) or "") for key in ("location", "view-uuid"))
    return OtherOwner(name, "view", folder, view.metadata_location, uuid)


def _is_view(catalog: RestCatalog, name: TableName) -> bool:
    try:
        return bool(catalog.view_exists((*name.namespace, name.name)))
    except Exception:  # few catalogs have views, and one without may report that in any way
        return False


_NESSIE = "nessie.is-nessie-catalog"
_WAREHOUSES = ("warehouse", "default-base-location")


def half_seen_places(protocol: RestProtocol, config: CatalogConfig) -> tuple[str, ...]:
    """Returns the tables' possible locations if the server is a Nessie; else none.

    Asked at each listing: another server may be at the same address by now.

    Raises:
        CatalogUnlistable: It is a Nessie, and the location of its tables is unknown.
    """
    settings = protocol.settings(config.uri, config.warehouse)
    if not is_nessie(settings):
        return ()
    named = [settings.get(key, "") for key in _WAREHOUSES]
    places = tuple(filter(is_place, [*named, config.warehouse]))
    if not places:
        raise CatalogUnlistable(
            f"catalog {config.name} shows one branch only, and does not say where its tables lie",
            object=config.name,
            expected="a warehouse that is a location",
            found=f"{', '.join(filter(None, named)) or 'none'}",
            next=f"set catalogs.{config.name}.warehouse to where its tables lie: nothing there is "
            "ever deleted",
        )
    return places


def is_nessie(settings: Mapping[str, str]) -> bool:
    """Returns whether a server declares itself a Nessie."""
    return str(settings.get(_NESSIE, "")).lower() == "true"


def rename(catalog: RestCatalog, source: TableName, target: TableName) -> None:
    """Renames a table in one request, which is atomic."""
    catalog.rename_table((*source.namespace, source.name), (*target.namespace, target.name))


@contextmanager
def under_another_name(catalog: RestCatalog, name: TableName) -> Iterator[TableName]:
    """Renames a table to a random name; restores its own name afterwards, unless it is gone.

    If the process is killed in between, the table stays listed under the other name.
    """
    aside = TableName(name.catalog, name.namespace, f"{name.name}__aside_{uuid4().hex}")
    rename(catalog, name, aside)
    try:
        yield aside
    finally:
        with suppress(NoSuchTableError):
            rename(catalog, aside, name)


Changes = tuple[list[Json], list[Json]]


def as_updates(document: MetadataEditor) -> Changes:
    """Returns the requirements and updates for an edit.

    Raises:
        CatalogReadOnly: The edit changes more than properties and refs.
    """
    if not document.changes_only("properties", "refs", "current-snapshot-id", "snapshot-log"):
        raise CatalogReadOnly(
            f"{document.state.name}: a REST catalog takes no such change from here",
            object=str(document.state.name),
            expected="a change of properties, branches or tags",
            found="another change",
            next="make it with an engine",
        )
    requirements, updates = _refs(document)
    same = {"type": "assert-table-uuid", "uuid": document.state.table_uuid}
    return [same, *requirements], [*_properties(document), *updates]


def _properties(document: MetadataEditor) -> list[Json]:
    before, after = document.state.properties, document.edited.properties
    updates: list[Json] = []
    if changed := {key: text for key, text in after.items() if before.get(key) != text}:
        updates.append({"action": "set-properties", "updates": changed})
    if removals := sorted(before.keys() - after.keys()):
        updates.append({"action": "remove-properties", "removals": removals})
    return updates


def _refs(document: MetadataEditor) -> Changes:
    before, after = document.state.refs, document.edited.refs
    requirements: list[Json] = []
    updates: list[Json] = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        snapshot = None if was is None else was.snapshot_id
        requirements.append(
            {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot}
        )
        removal = {"action": "remove-snapshot-ref", "ref-name": name}
        updates.append(removal if now is None else _set(now))
    return requirements, updates


def _set(ref: SnapshotRef) -> Json:
    written: dict[str, object] = {
        "action": "set-snapshot-ref",
        "ref-name": ref.name,
        "type": "branch" if ref.is_branch else "tag",
        "snapshot-id": ref.snapshot_id,
        "max-ref-age-ms": ref.max_ref_age_ms,
        "max-snapshot-age-ms": ref.max_snapshot_age_ms,
        "min-snapshots-to-keep": ref.min_snapshots_to_keep,
    }
    return {key: field for key, field in written.items() if field is not None}
