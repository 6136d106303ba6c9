"""Which reader PyIceberg gets: one that waits for no pipe, wherever the warehouse is local."""

import pytest
from pyiceberg.io import load_file_io

from meltline.adapters.catalogs.pyiceberg_properties import reading_regular_files
from meltline.adapters.catalogs.regular_files import RegularFiles


@pytest.mark.parametrize("warehouse", ["file:///w", "/w"])
def test_a_local_warehouse_is_read_by_the_reader_that_waits_for_no_pipe(warehouse: str) -> None:
    assert isinstance(load_file_io(reading_regular_files({}, warehouse)), RegularFiles)


def test_elsewhere_and_where_a_reader_is_named_pyiceberg_chooses_as_it_is_told() -> None:
    named = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    assert reading_regular_files({"a": "b"}, "s3://w") == {"a": "b"}
    assert reading_regular_files(named, "file:///w") == named
