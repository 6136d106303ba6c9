"""Who may read what Meltline writes on local disk: its owner, or a group that was named."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import create_engine

from meltline.adapters.gx.engine import GreatExpectationsEngine
from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.app.doctor.doctor import examine, open_files
from meltline.cli.run import step
from meltline.config.load import Config, load_config
from meltline.domain.clock import WallClock
from meltline.domain.deletion.limits import Limits
from meltline.file_permissions import Access
from tests.contract.gate.test_gate_engine import NOW, TTL, evidence
from tests.lake.lake import Lake

MASKS = [0, 0o022, 0o077]
MODES = {Access.OWNER: (0o600, 0o700), Access.GROUP: (0o660, 0o2770)}
BOTH = pytest.mark.parametrize("access", list(Access))
ANY_MASK = pytest.mark.parametrize("mask", MASKS)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@BOTH
@ANY_MASK
def test_the_control_ledger_and_what_lies_beside_it_are_for_those_who_were_named(
    tmp_path: Path, access: Access, mask: int
) -> None:
    file = tmp_path / "new" / "deep" / "control.db"
    with umask(mask):
        ledger = sql_control_ledger(f"sqlite:///{file}", WallClock(), access=access)
        ledger.database.prepare()
        reader = create_engine(f"sqlite:///{file}").connect()
        reader.exec_driver_sql("SELECT * FROM sqlite_master").all()  # keeps the -wal and -shm
        ledger.database.set_generation(1)
    of_file, of_folder = MODES[access]
    beside = sorted(file.parent.iterdir())
    assert [path.name for path in beside] == ["control.db", "control.db-shm", "control.db-wal"]
    assert {mode(path) for path in beside} == {of_file}
    assert {mode(file.parent), mode(file.parent.parent)} == {of_folder}
    reader.close()
    reader.engine.dispose()
    ledger.database.close()


def test_a_folder_that_was_there_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there").chmod(0o755)
    ledger = sql_control_ledger(f"sqlite:///{tmp_path}/there/control.db", WallClock())
    ledger.database.prepare()
    ledger.database.close()
    assert mode(tmp_path / "there") == 0o755
    assert mode(tmp_path / "there" / "control.db") == 0o600


@BOTH
@ANY_MASK
def test_pages_of_gates_are_for_those_who_were_named(
    tmp_path: Path, access: Access, mask: int
) -> None:
    engine = GreatExpectationsEngine(Limits(), TTL, tmp_path / "docs", "r1", access=access)
    with umask(mask):
        for _ in range(2):  # a page that is there is replaced
            engine.judge([evidence()], NOW)
    (page,) = (tmp_path / "docs").iterdir()
    assert (mode(page), mode(tmp_path / "docs")) == MODES[access]


@ANY_MASK
def test_the_summary_of_an_app_is_for_its_owner(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        step._write(tmp_path / "new" / "summary.json", {"notes": []})
    assert mode(tmp_path / "new" / "summary.json") == 0o600
    assert mode(tmp_path / "new") == 0o700


# --- what doctor says ------------------------------------------------------------------------

SECRET = "    token: opens-doors\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter: pytest shuts its own."""
    with TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def configured(folder: Path, more: str = "", catalog: str = "") -> Config:
    (folder / "meltline.yaml").write_text(
        f"control: sqlite:///my%20control.db\n{more}catalogs:\n  lake:\n    type: sql\n"
        f"    uri: sqlite:///c.db\n    warehouse: w\n{catalog}"
    )
    (folder / "meltline.yaml").chmod(0o644)
    return load_config(folder / "meltline.yaml", {"TOKEN": "opens-doors"}, folder)


def fixes(config: Config) -> list[str]:
    return [found.fix for found in open_files(config)]


def test_what_is_open_is_named_with_the_line_that_closes_it(folder: Path) -> None:
    for name in ("my control.db", "my control.db-wal"):
        (folder / name).touch()
        (folder / name).chmod(0o644)
    (folder / "meltline-docs").mkdir()
    (folder / "meltline-docs").chmod(0o755)
    config = configured(folder, catalog=SECRET)
    found = {path.path.name: path for path in open_files(config)}
    assert set(found) == {"my control.db", "my control.db-wal", "meltline.yaml", "meltline-docs"}
    assert found["my control.db"].who == "others may read and its group may read"
    assert found["meltline-docs"].fix == f"chmod -R go-rwx {folder}/meltline-docs"
    for fix in fixes(config):
        assert os.system(fix) == 0
    assert fixes(config) == []


def test_a_group_that_was_named_may_read_and_others_may_not(folder: Path) -> None:
    config = configured(folder, more="local-access: group\n")
    (folder / "my control.db").touch()
    (folder / "my control.db").chmod(0o660)
    assert fixes(config) == []
    (folder / "my control.db").chmod(0o664)
    assert fixes(config) == [f"chmod o-rwx '{folder}/my control.db'"]


def test_a_configuration_without_a_secret_in_it_may_be_read(folder: Path) -> None:
    assert fixes(configured(folder)) == []
    assert fixes(configured(folder, catalog="    token: ${TOKEN}\n")) == []
    assert len(fixes(configured(folder, catalog=SECRET))) == 1


def test_a_folder_that_keeps_others_out_closes_what_lies_in_it(folder: Path) -> None:
    config = configured(folder, catalog=SECRET)
    folder.chmod(0o700)
    assert fixes(config) == []


def test_doctor_reports_what_is_open(folder: Path) -> None:
    lake = Lake()
    services = lake.services()
    config = configured(folder, catalog=SECRET)
    opened = replace(
        services.config, path=config.path, catalogs={**services.config.catalogs, **config.catalogs}
    )
    services = replace(services, config=replace(opened, control=config.control))
    (finding,) = [found for found in examine(services) if found.code == "open_to_others"]
    assert finding.object == str(folder / "meltline.yaml")
    assert finding.fix == f"`chmod go-rwx {folder}/meltline.yaml`"
