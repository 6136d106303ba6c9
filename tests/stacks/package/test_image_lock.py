"""What the image installs, in an empty environment: the lock of production, and the wheel."""

from pathlib import Path

import pytest

from tests.stacks.package.environments import EXTRAS, ROOT, Environment, uv, with_extras
from tests.stacks.package.test_extras import require_imports

LOCK = ROOT / "deploy" / "requirements.txt"


@pytest.mark.slow("an environment is installed")
def test_the_lock_of_the_image_lacks_nothing_and_every_module_works(
    wheel: Path, tmp_path: Path
) -> None:
    image = Environment.create(tmp_path / "venv")
    image.install("--no-deps", "--require-hashes", "--requirement", str(LOCK))
    image.install("--no-deps", with_extras(wheel))
    uv("pip", "check", "--python", str(image.python))
    require_imports(image, tmp_path, {*EXTRAS})
    for tool in ("pytest", "mypy", "moto"):
        code, _, error = image.run("python", "-c", f"import {tool}", cwd=tmp_path)
        assert code != 0 and "ModuleNotFoundError" in error, tool
