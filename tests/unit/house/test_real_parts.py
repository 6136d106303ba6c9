"""A real part that is missing takes no test away unseen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_parts import MAY_BE_SKIPPED, must_run

ROOT = Path(__file__).resolve().parents[3]
SKIPPED = "import pytest\n\ndef test_it():\n    pytest.skip('no browser is installed')\n"


@pytest.mark.parametrize("ci, code, word", [("", 0, "1 skipped"), ("true", 1, "1 failed")])
def test_a_skip_is_a_failure_in_ci_and_says_what_is_missing(
    tmp_path: Path, ci: str, code: int, word: str
) -> None:
    (tmp_path / "test_skipped.py").write_text(SKIPPED)
    options = ["-p", "tests.conftest", "-c", os.devnull, "-o", f"cache_dir={tmp_path}", "-ra"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code and word in done.stdout
    assert "no browser is installed" in done.stdout


@pytest.mark.parametrize("name", MAY_BE_SKIPPED)
def test_what_may_be_skipped_is_a_test(name: str) -> None:
    module, test = name.split("::")
    (path,) = (ROOT / "tests").rglob(module)
    assert f"def {test.partition('[')[0]}(" in path.read_text(encoding="utf-8")
    assert not must_run(name, {"CI": "true"})
