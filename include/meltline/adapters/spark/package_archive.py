"""This package as one file that Spark sends to executors, which have none or another one."""

import hashlib
from importlib.resources import files
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from meltline.version import VERSION

_PACKAGE = "meltline"


def package_archive(folder: Path) -> Path:
    """Writes the package's modules into a file there, whose name says which build they are of.

    Modules alone: what executors run reads none of the package's other files.
    """
    root = Path(str(files(_PACKAGE)))
    modules = sorted(root.rglob("*.py"))
    contents = {f"{_PACKAGE}/{m.relative_to(root).as_posix()}": m.read_bytes() for m in modules}
    archive = folder / f"{_PACKAGE}-{VERSION}-{_digest(contents)}.zip"
    with ZipFile(archive, "w", ZIP_DEFLATED) as written:
        for name, content in contents.items():
            written.writestr(ZipInfo(name), content, ZIP_DEFLATED)  # without a time: as it is read
    return archive


def _digest(contents: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]
