"""What PyIceberg reads from a local disk: regular files, and nothing that it would wait for.

Its own reader opens whatever a catalog or a file names; of a pipe it never returns.
"""

from typing import cast

from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from meltline.adapters.object_store.local import open_regular
from meltline.domain.iceberg.locations import split_location

_DATA = ".parquet"  # rows are many, and Arrow reads them faster by itself


class RegularFiles(PyArrowFileIO):
    """PyIceberg's reader, for local metadata files, manifest lists and manifests."""

    def new_input(self, location: str) -> PyArrowFile:
        """A file to be read; opening it raises OSError where it is no regular file."""
        file = super().new_input(location)
        if location.endswith(_DATA) or split_location(location).scheme != "file":
            return file
        return _RegularFile(location, file._path, file._filesystem)


class _RegularFile(PyArrowFile):
    def open(self, seekable: bool = True) -> InputStream:
        return cast(InputStream, open_regular(self._path))
