"""What others say may quote a secret of the configuration; what we repeat does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from meltline.adapters.gx.engine import GreatExpectationsEngine
from meltline.adapters.object_store.store_errors import reason_of
from meltline.cli.output import print_error
from meltline.config.load import Config, load_config
from meltline.domain.deletion.limits import Limits
from meltline.domain.errors import StoreRefused
from meltline.domain.redaction import cause
from meltline.wiring import to_stderr
from tests.contract.gate.test_gate_engine import NOW, TTL, evidence

SECRETS = ("tell-nobody-1", "tell/nobody@2", "tell-nobody-3", "tell%2Fnobody%402")
TOLD = f"no route to x://me:{SECRETS[3]}@db ({SECRETS[1]}), key {SECRETS[0]}, {SECRETS[2]}"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "meltline.yaml").write_text(
        f"control: postgresql://me:{SECRETS[2]}@db/l\ncatalogs:\n  lake:\n    type: sql\n"
        f"    uri: postgresql://me:{SECRETS[3]}@db/l\n    warehouse: w\n"
        f"    adls.account-key: ${{KEY}}\n    s3.region: eu-west-1\n"
    )
    return load_config(tmp_path / "meltline.yaml", {"KEY": SECRETS[0]}, tmp_path)


def kept(text: str) -> bool:
    return "no route to x://me:***@db" in text and not any(one in text for one in SECRETS)


@pytest.mark.usefixtures("config")
def test_no_part_of_an_error_repeats_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    error = StoreRefused(TOLD, object=TOLD, expected=TOLD, found=TOLD, next=TOLD)
    assert all(kept(part) for part in [str(error), *list(error.as_json().values())[1:]])
    print_error(error, as_json=True)
    assert kept(json.loads(capsys.readouterr().out)["error"]["found"])


@pytest.mark.usefixtures("config")
def test_what_a_library_says_is_repeated_without_secrets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert kept(cause(ValueError(TOLD)))
    assert kept(reason_of(ValueError(TOLD)))
    to_stderr(TOLD)
    assert kept(capsys.readouterr().err)


@pytest.mark.usefixtures("config")
def test_what_is_no_secret_is_told() -> None:
    assert StoreRefused("nothing in eu-west-1 at db").message == "nothing in eu-west-1 at db"


def test_an_app_that_fails_in_a_way_nobody_foresaw_shows_no_secret(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    from meltline.cli.run.step import main

    words = [f"--config={config.path}", "--run-id=r", f"--summary={config.path.parent / 's'}"]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setenv("KEY", SECRETS[0])
        patch.setattr("meltline.cli.run.step._run", lambda *_: (_ for _ in ()).throw(OSError(TOLD)))
        main("observe", words)
    assert ended.value.code == 1
    assert kept(capsys.readouterr().err)


@pytest.mark.usefixtures("config")
def test_a_gate_that_crashes_logs_and_records_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    def crash() -> Any:
        raise RuntimeError(TOLD)

    engine = GreatExpectationsEngine(Limits(), TTL, context_of=crash)
    (result,) = engine.judge([evidence()], NOW)
    assert not result.passed and kept(result.error)
    assert "Traceback" in caplog.text and kept(caplog.text)
