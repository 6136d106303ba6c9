"""Commands for the jars that Spark needs beside its own: jars fetch, jars list.

`commands` loads it by name.
"""

import os
from typing import Annotated

import typer

from meltline.cli.options import AsJson
from meltline.cli.output import answer, answer_rows
from meltline.cli.progress import progress
from meltline.jars.fetched import JarFetcher
from meltline.jars.jar_paths import jar_folder
from meltline.jars.listed import own_jars, wanted

Features = Annotated[
    list[str] | None,
    typer.Option("--feature", metavar="NAME", help="more than every app needs: s3; repeatable"),
]


def fetch(feature: Features = None, as_json: AsJson = False) -> int:
    """Download the jars into `MELTLINE_JARS` or the cache folder; other checksums are rejected."""
    fetcher, jars = JarFetcher.here(os.environ, progress()), wanted(own_jars(), feature or ())
    fetcher.ensure(jars)
    document = {"folder": str(fetcher.folder), "jars": [jar.name for jar in jars]}
    return answer(document, [f"{len(jars)} jars are in {fetcher.folder}."], as_json=as_json)


def list_jars(as_json: AsJson = False) -> int:
    """List the jars by coordinates, as for `spark.jars.packages`, and whether they exist."""
    folder = jar_folder(os.environ)
    rows = [
        [jar.coordinates, jar.feature, "yes" if (folder / jar.name).is_file() else "no", jar.sha256]
        for jar in own_jars()
    ]
    columns = ("coordinates", "feature", "there", "sha256")
    document = {
        "folder": str(folder),
        "jars": [dict(zip(columns, row, strict=True)) for row in rows],
    }
    return answer_rows(document, columns, rows, as_json=as_json, title=str(folder))
