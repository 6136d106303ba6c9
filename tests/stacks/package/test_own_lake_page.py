"""The page docs/your-own-lake.md, carried out as it stands by an installed Meltline."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stacks.package.environments import ROOT, Environment

PAGE = (ROOT / "docs" / "your-own-lake.md").read_text(encoding="utf-8")
OTHER = re.compile(r"^### With Postgres and S3 instead$.*?(?=^## )", re.MULTILINE | re.DOTALL)


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow("an environment with Spark is installed, and Spark starts five times")
def test_every_command_of_the_page_works_in_its_order(
    environment: Callable[..., Environment], tmp_path: Path
) -> None:
    page = OTHER.sub("", PAGE)
    (practice,) = blocks("python", page)
    install, *steps = blocks("sh", page)
    assert "pip install" in install and "meltline jars fetch" in install
    (tmp_path / "practice.py").write_text(practice)
    script = "\n".join(["meltline jars fetch", "python practice.py", *steps])
    meltline = environment("spark", "gx")
    code, out, err = meltline.run("/bin/bash", "-e", "-c", script, cwd=tmp_path)
    assert code == 0, err
    assert "snapshots of `lake.db.events` expired" in out
    assert re.search(r"^armed: +yes$", out, re.MULTILINE)
