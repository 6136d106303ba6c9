"""Creates or checks the database or folder that a catalog needs before its first table.

`meltline init` calls it through `wiring`; runs do not, so no run creates a catalog in passing.
"""

from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from meltline.adapters.catalogs.connection_errors import no_answer
from meltline.adapters.catalogs.sql_catalog import open_database
from meltline.config.load import CatalogConfig
from meltline.domain.errors import SetupMissing
from meltline.file_permissions import Access, make_folder
from meltline.ports import Catalog


def lay_foundation(settings: CatalogConfig, catalog: Catalog, access: Access) -> None:
    """Prepares a catalog so that tables can be created in it.

    Creates the folder of a SQLite file. Engines create the tables of a SQL catalog, in a database
    that must exist; any other catalog is asked for its listing.

    Raises:
        CatalogUnlistable: It does not answer, refuses access, or does not exist.
        SetupMissing: Its database has no schema for tables.
    """
    if settings.type != "sql":
        catalog.listing()
        return
    url = make_url(settings.uri)
    if url.get_backend_name() == "sqlite":
        _make_home(settings, Path(url.database or ""), access)
    else:
        _require_schema(settings)


def _make_home(settings: CatalogConfig, file: Path, access: Access) -> None:
    try:
        make_folder(file.parent, access)
        if not file.parent.is_dir():
            raise NotADirectoryError(f"{file.parent} is a file")
    except OSError as failure:
        raise SetupMissing(
            f"the folder of catalog {settings.name} cannot be made",
            object=str(file.parent),
            expected="a folder for the database of the catalog",
            found=str(failure),
            next="make the folder, or correct the catalog's `uri` in meltline.yaml",
        ) from failure


def _require_schema(settings: CatalogConfig) -> None:
    """Checks in which schema a database server would create tables."""
    engine = open_database(settings.uri)
    try:
        with engine.connect() as connection:
            if engine.dialect.name != "postgresql":
                return
            schema = connection.execute(select(func.current_schema())).scalar_one()
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise no_answer(settings.name, "a database that can be opened", cause) from error
    finally:
        engine.dispose()
    if schema is None:
        raise SetupMissing(
            f"the database of catalog {settings.name} has no schema for its tables",
            object=settings.name,
            expected="a schema that the search path names",
            found="none of those schemas is there",
            next="create it (`CREATE SCHEMA NAME`), or correct the search path in the catalog's "
            "`uri`",
        )
