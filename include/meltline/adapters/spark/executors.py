"""Ships this package to executors, and checks before any work that they can run it.

`session` calls it. The package is sent as a file that their Python prefers to an installed one.
Its dependencies have native code, which no such file can carry, so the executors' Python must have
them. Executors must also see the same local folders as this process (docs/clusters.md).
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

from meltline.adapters.object_store.local import LocalFiles
from meltline.adapters.spark.jvm import ENGINE_FAILURES
from meltline.domain.errors import ExecutorsUnfit
from meltline.domain.path_aliases import is_local
from meltline.version import VERSION

_PACKAGE = "meltline"


def package_archive(folder: Path) -> Path:
    """Writes the package's modules to an archive whose name identifies the build.

    Modules alone: executors read none of the package's other files.
    """
    root = Path(str(files(_PACKAGE)))
    modules = sorted(root.rglob("*.py"))
    contents = {f"{_PACKAGE}/{m.relative_to(root).as_posix()}": m.read_bytes() for m in modules}
    archive = folder / f"{_PACKAGE}-{VERSION}-{_digest(contents)}.zip"
    with ZipFile(archive, "w", ZIP_DEFLATED) as written:
        for name, content in contents.items():
            written.writestr(ZipInfo(name), content, ZIP_DEFLATED)  # without a time: reproducible
    return archive


def _digest(contents: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


EXECUTOR_MODULES = (
    "meltline.adapters.archive.spark_archive",
    "meltline.adapters.ingest.bulk_rows",
    "meltline.adapters.ingest.ingest_job",
    "meltline.adapters.manifests.spark_decoder",
    "meltline.adapters.orphan_scan.listing",
    "meltline.adapters.proofs.proof_cache",
    "meltline.adapters.proofs.proof_reader",
)
"""Modules that hand work to executors: executors need everything that these import."""

_FIT = "spark.meltline.executors"  # the archive that this session's executors have confirmed
_REMEDY = (
    "have the Python of each executor (PYSPARK_PYTHON) be one with the packages that "
    "`pip install 'meltline[spark]'` brings, or send it along: docs/clusters.md"
)
_Answer = Mapping[str, Any]


def runs_here(master: str) -> bool:
    """Returns whether a master has its executors in the driver's own process."""
    return master == "local" or master.startswith("local[")


def prepare_executors(spark: SparkSession, places: Iterable[str]) -> None:
    """Sends the package to a cluster's executors, and tests it on those that are running.

    Args:
        spark: The session; nothing is done if its executors run in this process.
        places: Folders and buckets that driver and executors both use.

    Raises:
        ExecutorsUnfit: One lacks a package, or sees another folder than the driver.
    """
    context = spark.sparkContext
    if runs_here(_master(context)):
        return
    archive = package_archive(Path(SparkFiles.getRootDirectory()))
    if spark.conf.get(_FIT, "") == archive.name:
        return
    context.addPyFile(str(archive))
    folders = [place for place in places if is_local(place)]
    before = _names(folders)
    answers = _asked(context, archive.name, folders)
    if problems := problems_of(answers, before, _names(folders)):
        raise _refusal(_master(context), archive.name, "; ".join(sorted(problems)))
    spark.conf.set(_FIT, archive.name)


def _master(context: SparkContext) -> str:
    return context.master or "local"


def _asked(context: SparkContext, archive: str, folders: Sequence[str]) -> Sequence[_Answer]:
    """Collects the executors' answers, several per executor and more from those with more cores."""
    tasks = 2 * context.defaultParallelism
    numbers = context.parallelize(range(tasks), tasks)
    try:
        return numbers.mapPartitions(executor_answer(archive, EXECUTOR_MODULES, folders)).collect()
    except ENGINE_FAILURES as failed:
        raise _refusal(_master(context), archive, _cause(str(failed))) from failed


def executor_answer(
    archive: str, modules: Sequence[str], folders: Sequence[str]
) -> Callable[[Iterable[int]], Iterator[_Answer]]:
    """Returns the check that an executor runs. It is pickled by value, and imports when it runs.

    Args:
        archive: The file from which the package must be imported.
        modules: The modules to import.
        folders: Local folders to list.
    """

    def look(numbers: Iterable[int]) -> Iterator[_Answer]:
        import socket  # noqa: PLC0415 - runs on the executor
        import sys  # noqa: PLC0415
        from importlib import import_module  # noqa: PLC0415

        problem, names = "", {}
        try:
            for module in modules:
                import_module(module)
            package = import_module("meltline").__file__ or ""
            if archive not in package:
                problem = f"it imports another Meltline, {package}"
            local = import_module("meltline.adapters.object_store.local").LocalFiles()
            names = {
                folder: [n for part in local.names(folder) for n in part] for folder in folders
            }
        except Exception as error:  # any problem is reported
            problem = f"{type(error).__name__}: {error}"
        who = f"{socket.gethostname()} ({sys.executable})"
        yield {"who": who, "problem": problem, "names": names}

    return look


def problems_of(
    answers: Iterable[_Answer], before: Mapping[str, set[str]], after: Mapping[str, set[str]]
) -> set[str]:
    """Returns why executors cannot do their part, from their answers; empty if they can.

    Args:
        answers: The executors' answers.
        before: The driver's listing of each folder before the check.
        after: Its listing after the check.
    """
    unfit = {f"{answer['who']}: {answer['problem']}" for answer in answers if answer["problem"]}
    return {*unfit, *_elsewhere(answers, before, after)}


def _names(folders: Sequence[str]) -> Mapping[str, set[str]]:
    """Returns the names in local folders; empty for a missing folder."""
    local = LocalFiles()
    return {folder: {n for part in local.names(folder) for n in part} for folder in folders}


def _elsewhere(
    answers: Iterable[_Answer], before: Mapping[str, set[str]], after: Mapping[str, set[str]]
) -> Iterator[str]:
    """Yields folders that an executor sees with other files than the driver: it has its own."""
    for answer in answers:
        for folder, listed in answer["names"].items():
            seen = set(listed)
            if not before[folder] & after[folder] <= seen <= before[folder] | after[folder]:
                yield f"{answer['who']}: its folder {folder} is another one than the driver's"


def _refusal(master: str, archive: str, problem: str) -> ExecutorsUnfit:
    return ExecutorsUnfit(
        "executors cannot do their part of the work",
        object=master,
        expected=f"{archive}, which they were sent, all that it imports, and the driver's folders",
        found=problem,
        next=_REMEDY,
    )


def _cause(text: str) -> str:
    """Returns the line of a job's failure with its cause, if there is one."""
    told = re.search(r"Cannot run program .*|^\S*Error: .*", text, re.MULTILINE)
    return told[0] if told else text.strip().partition("\n")[0]
