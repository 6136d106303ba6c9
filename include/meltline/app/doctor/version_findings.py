"""Stores that keep versions: what is deleted there is gone by its name, and its bytes stay."""

from collections.abc import Iterable, Iterator

from meltline.app.safety.findings import Finding
from meltline.domain.errors import StoreRefused
from meltline.domain.places import is_local, store_of
from meltline.ports import ObjectReader


def version_findings(store: ObjectReader, files: Iterable[str]) -> Iterator[Finding]:
    """Looks at one file of each store. A store that does not tell, or not answer, is passed over.

    Args:
        store: Measures them.
        files: Files that are there, such as the tables' metadata files.
    """
    one_of_each = {store_of(path): path for path in files if not is_local(path)}
    for name, path in sorted(one_of_each.items()):
        if _is_version(store, path):
            yield Finding(
                "warning",
                "keeps_versions",
                name.rstrip("/"),
                "this store keeps versions: what a purge deletes goes by its name, and its bytes "
                "stay there and are paid for, though reports count them as deleted",
                "add a lifecycle rule to the bucket that ends noncurrent versions after some days",
            )


def _is_version(store: ObjectReader, path: str) -> bool:
    try:
        shown = store.measure(path)
    except StoreRefused:
        return False  # whoever reads the table says so
    return shown is not None and shown.is_version
