"""What leaves cold: back into hot as a new table, and as it is into the permanent store."""

from typing import Protocol

from meltline.domain.archive.restored import Retrieved
from meltline.domain.iceberg.table_metadata import TableMetadata


class DeepStore(Protocol):
    """The permanent store (AR-29, AR-36): files of cold, byte for byte. It only ever grows."""

    def hold(self, path: str, size: int) -> int:
        """Has it hold a file of cold.

        Args:
            path: The file.
            size: Its length, which the copy must have.

        Returns:
            How many bytes were written now: 0 where it had the file.

        Raises:
            FileNotFoundError: Cold does not have it; or StoreRefused.
            StoreRefused: Either is of another length, or a store refuses.
        """
        ...

    def size(self, path: str) -> int | None:
        """The length of a file's copy; None where there is none. Raises StoreRefused."""
        ...

    def give_back(self, path: str) -> int:
        """Puts a file back to its path in cold, which has it no more.

        Returns:
            Its bytes.

        Raises:
            FileNotFoundError: There is no copy of it.
            StoreRefused: A store refuses; one that keeps it offline has to be asked for it first.
        """
        ...


class Retriever(Protocol):
    """Reads cold and writes hot; cold is never changed by it."""

    def bring_back(self, cold: TableMetadata, snapshot_id: int, folder: str) -> Retrieved:
        """Copies a snapshot's files below a folder of hot, so that they name no file of cold.

        Each lies at its path in cold, below the folder. What is there already is not copied again.

        Args:
            cold: The cold table.
            snapshot_id: One of its snapshots.
            folder: A folder of hot that is the new table's own.

        Raises:
            MetadataUnreadable: A manifest, or a manifest list, does not follow the spec.
            FileNotFoundError: A file of cold is gone.
            StoreRefused: A file is not as long as its manifest says, or a store refuses.
        """
        ...
