"""What a metadata file said is remembered for as long as the same object lies under its path."""

from dataclasses import dataclass, replace

from meltline.app.catalog.metadata import remembered_states
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogEntry
from tests.lake.counting import CountingStore
from tests.lake.lake import Lake

BUCKET = "s3://bucket/t/metadata/00001-m.metadata.json"


@dataclass
class Place:
    """One metadata file in a bucket, and who looks at it."""

    lake: Lake

    def __post_init__(self) -> None:
        self.store = CountingStore(self.lake.store)
        self.entry = CatalogEntry(TableName.parse("lake.air.t"), BUCKET)

    def write(self, name: str) -> int:
        """The metadata of another table, as long as any other; returns its length."""
        table = self.lake.table(name)
        content = self.lake.store.read(table.metadata_location)
        self.lake.store.write(BUCKET, content)
        return len(content)

    def uuid(self) -> str:
        """Whose metadata a look finds there."""
        services = self.lake.services(store=self.store)
        observations = services.control.observations
        loaded = remembered_states(services.catalogs, services.store, observations, [self.entry])
        (state,) = loaded.values()
        assert isinstance(state, TableMetadata), state
        return state.table_uuid


def test_a_metadata_file_that_has_not_changed_is_read_once() -> None:
    place = Place(Lake().on(0))
    place.write("one")
    assert place.uuid() == place.uuid()
    assert place.store.reads[BUCKET] == 1


def test_another_one_of_the_same_size_and_moment_is_read_by_its_etag() -> None:
    place = Place(Lake().on(0))
    length = place.write("one")
    before = place.uuid()
    assert place.write("two") == length
    assert place.uuid() != before and place.store.reads[BUCKET] == 2


def test_what_an_earlier_release_remembered_without_a_version_is_read_again_once() -> None:
    place = Place(Lake().on(0))
    place.write("one")
    place.uuid()
    control = place.lake.control
    (old,) = control.observations.documents([BUCKET]).values()
    control.observations.save_documents([replace(old, version="")], current=[BUCKET])
    assert place.uuid() == place.uuid()
    assert place.store.reads[BUCKET] == 2
