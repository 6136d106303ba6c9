"""Whatever others do between two requests of a change, and wherever it dies, nothing is lost."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from meltline.adapters.catalogs.metastores.rows import LOCATION, TABLE_TYPE, Row
from meltline.adapters.catalogs.metastores.tables import MetastoreTables
from meltline.config.load import CatalogConfig
from meltline.domain.errors import (
    CatalogUnlistable,
    CommitConflict,
    MeltlineError,
    TableNotFound,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.ports import TableMove
from tests.contract.catalogs.test_catalog import NAME, START, written
from tests.doubles.store import MemoryStore
from tests.unit.catalog.rows_in_memory import (
    FoldingMetastore,
    Killed,
    MemoryDatabases,
    MemoryMetastore,
    RenamingMetastore,
)

PLACE = TableName("lake", ("attic",), "t")
ASIDE = TableName("lake", ("aside",), "t")
FOREIGN = "file:///w/foreign/metadata/00000-f.metadata.json"


@dataclass
class Lake:
    """One table, and what others do with it."""

    metastore: MemoryMetastore
    store: MemoryStore = field(
        default_factory=lambda: MemoryStore(
            {
                START: json.dumps(written()).encode(),
                FOREIGN: json.dumps(written() | {"table-uuid": "foreign"}).encode(),
            }
        )
    )
    databases: MemoryDatabases = field(default_factory=MemoryDatabases)
    commits: list[str] = field(default_factory=list)
    is_leaving: bool = False
    is_done: bool = False
    foreign_at: TableName | None = None

    def __post_init__(self) -> None:
        self.tables.register(NAME, START)
        self.metastore.requests = 0

    @property
    def tables(self) -> MetastoreTables:
        config = CatalogConfig("lake", "glue", "", "", "", False, {})
        return MetastoreTables(
            config, self.store, self.metastore, self.databases, pause=lambda seconds: None
        )

    def standing(self) -> dict[TableName, str]:
        return {e.name: e.metadata_location for e in self.tables.listing().entries}

    def document(self, location: str) -> dict[str, object]:
        document: dict[str, object] = json.loads(self.store.read(location))
        return document

    # --- what is done -----------------------------------------------------------------------------

    def edit(self) -> None:
        self.tables.set_table_properties(NAME, {"mine": "1"})

    def move(self) -> None:
        self.tables.move([TableMove(NAME, PLACE, _mark)])

    def move_as_it_is(self) -> None:
        self.tables.move([TableMove(NAME, PLACE, lambda document: None)])

    def leave(self) -> None:
        self.is_leaving = True
        self.tables.unregister(NAME, self.standing()[NAME])

    # --- what others do meanwhile -----------------------------------------------------------------

    def engines_commit(self) -> None:
        """An engine commits wherever it finds the table."""
        for name in (NAME, PLACE, ASIDE):
            row = self.metastore.row(name.namespace[0], "t")
            if row is None or row.parameters[TABLE_TYPE] != "ICEBERG":
                continue
            mark = f"engine-{len(self.commits)}"
            new = f"file:///w/air/t/metadata/{mark}.metadata.json"
            before = self.document(row.location)
            properties = {**before["properties"], mark: "1"}  # type: ignore[dict-item]
            log = [*before["metadata-log"], {"metadata-file": row.location}]  # type: ignore[misc]
            after = before | {"properties": properties, "metadata-log": log}
            self.store.write(new, json.dumps(after).encode())
            assert self.metastore.replace(row, {**row.parameters, LOCATION: new})
            if before["table-uuid"] == written()["table-uuid"]:
                self.commits.append(mark)

    def another_edits(self) -> None:
        self.tables.set_table_properties(NAME, {"theirs": "1"})

    def another_edits_it_there(self) -> None:
        self.tables.set_table_properties(PLACE, {"theirs": "1"})

    def another_moves(self) -> None:
        self.tables.move([TableMove(NAME, ASIDE, _mark)])

    def another_moves_it_there_too(self) -> None:
        self.tables.move([TableMove(NAME, PLACE, _mark)])

    def another_takes_the_name(self) -> None:
        self.tables.register(PLACE, FOREIGN)
        self.foreign_at = PLACE

    def another_takes_the_old_name(self) -> None:
        self.tables.register(NAME, FOREIGN)
        self.foreign_at = NAME

    def another_takes_the_name_and_edits(self) -> None:
        self.another_takes_the_name()
        self.another_edits()

    def the_name_is_free_again_and_another_edits(self) -> None:
        if self.foreign_at == PLACE and self.tables.unregister(PLACE, FOREIGN):
            self.foreign_at = None
        self.another_edits()

    def edits_and_commits(self) -> None:
        self.another_edits()
        self.engines_commit()

    def finishes_and_commits(self) -> None:
        with suppress(MeltlineError):
            self.another_edits()
        self.engines_commit()


def _mark(document: MetadataEditor) -> None:
    document.set_properties({"moved": "1"})


DONE = (Lake.edit, Lake.move, Lake.move_as_it_is, Lake.leave)
MEANWHILE = (
    Lake.engines_commit, Lake.another_edits, Lake.another_edits_it_there, Lake.another_moves,
    Lake.another_moves_it_there_too, Lake.another_takes_the_name, Lake.another_takes_the_old_name,
    Lake.edits_and_commits, Lake.finishes_and_commits, Lake.another_takes_the_name_and_edits,
)  # fmt: skip
Deed = Callable[[Lake], None]


def lived(lake: Lake, deed: Deed) -> None:
    """Does it, as far as it goes; then everything that is half way is finished."""
    with suppress(Killed, MeltlineError):
        deed(lake)
        lake.is_done = True
    lake.metastore.dies_after = -1
    lake.metastore.meanwhile.clear()
    lake.metastore.denied.clear()
    for name in (NAME, PLACE, ASIDE):
        with suppress(MeltlineError):
            lake.tables.set_table_properties(name, {"last": "1"})


def judge(lake: Lake) -> None:
    """Every file that is pointed at is there; no table, and no commit of an engine, is lost."""
    documents = {name: lake.document(location) for name, location in lake.standing().items()}
    ours = {k: d for k, d in documents.items() if d["table-uuid"] == written()["table-uuid"]}
    assert len(ours) == 1 or (lake.is_leaving and not lake.commits and not ours)
    for document in ours.values():
        assert set(lake.commits) <= set(document["properties"])  # type: ignore[call-overload]
        for entry in document["metadata-log"]:  # type: ignore[attr-defined]
            assert lake.store.read(entry["metadata-file"])
    assert lake.foreign_at is None or documents[lake.foreign_at]["table-uuid"] == "foreign"


def requests_of(kind: type[MemoryMetastore], deed: Deed) -> range:
    lake = Lake(kind())
    deed(lake)
    return range(lake.metastore.requests)


def quietly(lake: Lake, meanwhile: Deed) -> Callable[[], None]:
    def others() -> None:
        with suppress(MeltlineError):
            meanwhile(lake)

    return others


@pytest.mark.parametrize("kind", [MemoryMetastore, RenamingMetastore])
@pytest.mark.parametrize("deed", DONE)
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_nothing_is_lost_whatever_others_do_between_two_requests_of_one_that_may_die(
    kind: type[MemoryMetastore], deed: Deed, meanwhile: Deed
) -> None:
    for at in requests_of(kind, deed):
        for dies_after in (-1, at, at + 1):
            lake = Lake(kind())
            lake.metastore.meanwhile[at] = quietly(lake, meanwhile)
            lake.metastore.dies_after = dies_after
            lived(lake, deed)
            if at in lake.metastore.deletes:
                lake.foreign_at = None  # looked for right before; no metastore can do better
            judge(lake)


@pytest.mark.parametrize("deed", [Lake.move, Lake.move_as_it_is])
@pytest.mark.parametrize(
    "then", [Lake.the_name_is_free_again_and_another_edits, Lake.finishes_and_commits]
)
def test_nothing_is_lost_where_the_new_name_is_taken_and_free_again(deed: Deed, then: Deed) -> None:
    for at in requests_of(MemoryMetastore, deed):
        for later in range(at + 1, at + 5):
            lake = Lake(MemoryMetastore())
            lake.metastore.meanwhile[at] = quietly(lake, Lake.another_takes_the_name)
            lake.metastore.meanwhile[later] = quietly(lake, then)
            lived(lake, deed)
            judge(lake)
            assert not lake.is_done or lake.standing().keys() - {NAME}


@pytest.mark.parametrize("kind", [MemoryMetastore, RenamingMetastore])
@pytest.mark.parametrize("deed", DONE)
@pytest.mark.parametrize(
    "meanwhile", [Lake.engines_commit, Lake.finishes_and_commits, Lake.another_moves]
)
def test_nothing_is_lost_where_the_metastore_denies_what_it_has_done(
    kind: type[MemoryMetastore], deed: Deed, meanwhile: Deed
) -> None:
    for at in requests_of(kind, deed):
        lake = Lake(kind())
        lake.metastore.denied.add(at)
        lake.metastore.meanwhile[at + 1] = quietly(lake, meanwhile)
        lived(lake, deed)
        judge(lake)


def test_an_edit_whose_success_was_denied_is_done_once() -> None:
    lake = Lake(MemoryMetastore())
    (*_, last) = requests_of(MemoryMetastore, Lake.edit)
    lake.metastore.denied.add(last)
    lake.edit()
    (at,) = lake.standing().values()
    assert [entry["metadata-file"] for entry in lake.document(at)["metadata-log"]] == [START]  # type: ignore[attr-defined]


def test_a_fence_whose_table_has_been_committed_to_under_its_new_name_goes() -> None:
    lake = Lake(MemoryMetastore())
    (*_, last) = requests_of(MemoryMetastore, Lake.move)
    lake.metastore.dies_after = last - 1
    with pytest.raises(Killed):
        lake.move()
    assert lake.standing().keys() == {NAME, PLACE}
    lake.engines_commit()
    with suppress(MeltlineError):
        lake.another_edits()
    assert lake.standing().keys() == {PLACE}


def test_a_move_that_others_took_back_is_not_called_done() -> None:
    for at in requests_of(MemoryMetastore, Lake.move):
        lake = Lake(MemoryMetastore())
        lake.metastore.meanwhile[at] = quietly(lake, Lake.another_takes_the_name_and_edits)
        lived(lake, Lake.move)
        assert lake.is_done == (lake.standing()[PLACE] != FOREIGN)


def test_a_property_of_a_namespace_that_another_writer_has_overwritten_is_set_again() -> None:
    lake = Lake(MemoryMetastore())
    lake.databases.meanwhile = [{"theirs": "1"}, {"theirs": "2", "gone": "x"}]
    lake.tables.set_namespace_properties(("air",), {"meltline.hold": "court"}, ["gone"])
    assert lake.databases.properties()["air"] == {"theirs": "2", "meltline.hold": "court"}


def test_a_property_that_others_overwrite_each_time_is_not_called_set() -> None:
    lake = Lake(MemoryMetastore())
    lake.databases.meanwhile = [{"theirs": "1"}] * 5
    with pytest.raises(CommitConflict, match="changed each time"):
        lake.tables.set_namespace_properties(("air",), {"meltline.hold": "court"})


def test_a_property_that_another_has_set_meanwhile_is_not_overwritten_anew() -> None:
    lake = Lake(MemoryMetastore())
    lake.databases.meanwhile = [{"epoch": "3"}]
    with pytest.raises(CommitConflict, match="epoch"):
        lake.tables.set_namespace_properties(("air",), {"epoch": "2"}, expected={"epoch": None})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("meltline_dropped", "a__b"), ("meltline_dropped", "a-b")),
        (("meltline_dropped__a__b", "t"), ("meltline_dropped__a-b", "u")),
    ],
)
def test_rows_that_would_have_one_name_make_the_catalog_unlistable(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    lake = Lake(MemoryMetastore())
    for database, table in (one, other):
        lake.databases.make(database, {"meltline.hold": database})
        lake.metastore.insert(database, table, {TABLE_TYPE: "ICEBERG", LOCATION: START}, written())
        if (database, table) == one:
            assert len(lake.standing()) == 2
    with pytest.raises(CatalogUnlistable):
        lake.standing()


def test_a_table_is_not_found_by_another_name_that_its_metastore_folds() -> None:
    lake = Lake(FoldingMetastore())
    with pytest.raises(TableNotFound):
        lake.tables.location(TableName("lake", ("air",), "T"))
    assert lake.tables.location(NAME) == START


def test_a_metadata_file_whose_own_path_looks_like_a_fence_is_where_it_is() -> None:
    path = "s3://lake/meltline-moving:ab:/metadata/0.json"
    assert Row("air", "t", {TABLE_TYPE: "ICEBERG", LOCATION: path}, None).location == path
