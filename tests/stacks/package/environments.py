"""Empty environments into which the wheel is installed, and what runs in them."""

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
UV = Path(sys.executable).with_name("uv")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = sorted(PROJECT["optional-dependencies"])
_KEPT = ("HOME", "JAVA_HOME", "LANG", "MELTLINE_IVY_SETTINGS", "SSL_CERT_FILE", "TMPDIR")


def uv(*words: str) -> None:
    """Runs uv, by whatever index it is set to."""
    done = subprocess.run([str(UV), *words], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, f"uv {' '.join(words)}:\n{done.stdout}\n{done.stderr}"


@dataclass(frozen=True)
class Environment:
    """A virtual environment outside of the checkout, which does not know it."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> "Environment":
        uv("venv", "--quiet", "--python", sys.executable, str(folder))
        return cls(folder)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self, *words: str) -> None:
        uv("pip", "install", "--quiet", "--python", str(self.python), *words)

    def run(self, command: str, *words: str, cwd: Path, **more: str) -> tuple[int, str, str]:
        """Runs a command of this environment; its exit code, and what it said on either side.

        Args:
            command: A file of its folder `bin`.
            words: Of the command line.
            cwd: Where it runs.
            more: Variables beside the few that every process has.
        """
        path = os.pathsep.join([str(self.folder / "bin"), "/usr/local/bin", "/usr/bin", "/bin"])
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        done = subprocess.run(
            [str(self.folder / "bin" / command), *words],
            env={**kept, "PATH": path, "MELTLINE_JARS": os.environ["MELTLINE_JARS"], **more},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def answer(self, *words: str, cwd: Path, **more: str) -> Any:
        """The last line that a script or a command prints, as JSON; it must end well."""
        code, out, err = self.run(*words, cwd=cwd, **more)
        assert code == 0, f"{words}:\n{out}\n{err}"
        return json.loads(out[out.index("{") :])


def with_extras(wheel: Path, *extras: str) -> str:
    """The wheel as a requirement."""
    chosen = f"[{','.join(extras)}]" if extras else ""
    return f"meltline{chosen} @ {wheel.as_uri()}"
