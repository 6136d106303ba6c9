"""PyIceberg FileIO for local disks that opens regular files only.

PyIceberg's own FileIO opens any path that a catalog or a file names; reading a pipe never returns.
"""

from typing import cast

from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from meltline.adapters.object_store.local import open_regular
from meltline.domain.iceberg.locations import split_location

_DATA = ".parquet"  # rows are many, and Arrow alone reads them faster


class RegularFiles(PyArrowFileIO):
    """Local FileIO for metadata files, manifest lists and manifests."""

    def new_input(self, location: str) -> PyArrowFile:
        """Returns an input file; opening it raises OSError if it is no regular file."""
        file = super().new_input(location)
        if location.endswith(_DATA) or split_location(location).scheme != "file":
            return file
        return _RegularFile(location, file._path, file._filesystem)


class _RegularFile(PyArrowFile):
    def open(self, seekable: bool = True) -> InputStream:
        return cast(InputStream, open_regular(self._path))
