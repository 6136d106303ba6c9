"""Protocols of reading files out of cold: into hot for a restore, and into the permanent store.

`app/restore` and `app/archive` call them; `adapters/archive` implements them. They are apart from
`archive`, whose protocols bring files into cold.
"""

from typing import Protocol

from meltline.domain.archive.restored import Retrieved
from meltline.domain.iceberg.table_metadata import TableMetadata


class DeepStore(Protocol):
    """The permanent store (AR-29, AR-36): files of cold, byte for byte. It only ever grows."""

    def hold(self, path: str, size: int) -> int:
        """Copies a file of cold to the permanent store unless it has it.

        Args:
            path: The file.
            size: Its length, which the copy must have.

        Returns:
            The bytes written now: 0 if the store had the file.

        Raises:
            FileNotFoundError: Cold does not have it.
            StoreRefused: Either is of another length, or a store refuses.
        """
        ...

    def size(self, path: str) -> int | None:
        """Returns the length of a file's copy; None if there is none. Raises StoreRefused."""
        ...

    def give_back(self, path: str) -> int:
        """Copies a file back to its path in cold, where it is missing.

        Returns:
            Its bytes.

        Raises:
            FileNotFoundError: There is no copy of it.
            StoreRefused: A store refuses; a file in offline storage must be requested there first.
        """
        ...


class Retriever(Protocol):
    """Copies files from cold to hot; never changes cold."""

    def bring_back(self, cold: TableMetadata, snapshot_id: int, folder: str) -> Retrieved:
        """Copies a snapshot's files to a folder of hot and rewrites their references to it.

        Each lies at its path in cold, below the folder. Existing files are not copied again.

        Args:
            cold: The cold table.
            snapshot_id: One of its snapshots.
            folder: A folder of hot that only the new table uses.

        Raises:
            MetadataUnreadable: A manifest, or a manifest list, does not follow the spec.
            FileNotFoundError: A file of cold is missing.
            StoreRefused: A file's length differs from its manifest's, or a store refuses.
        """
        ...
