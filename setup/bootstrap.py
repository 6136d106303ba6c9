"""Set this checkout up, then run the command given as arguments in its environment.

Standard library only: it runs before anything is installed. Each step first looks whether its work
is done, so a rerun costs a few milliseconds. Steps, in the order in which they need each other:
Java, the virtual environment, the jars (fetched by the Ivy that pyspark ships, hence last).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jars
import java
from steps import SetupError, cache_dir, debian_package, say, wait_for

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PYSPARK = VENV / "lib" / "python3.11" / "site-packages" / "pyspark"
STAMP = VENV / "meltline-setup.json"
# Not the interpreter itself: that may be .venv's, and .venv may be about to be rebuilt.
BASE_PYTHON = str(getattr(sys, "_base_executable", sys.executable))


def main(command: list[str]) -> None:
    """Run every step that has work to do, then become the command."""
    # Two at once in one checkout: the second waits, then finds everything done. The lock is on a
    # folder of the tree, so it leaves no file behind and survives the removal of .venv.
    lock = os.open(ROOT / "setup", os.O_RDONLY)
    wait_for(lock, "another set-up of this checkout")
    java_home = java.find() or java.install()
    make_venv()
    jar_dir = jars.ensure(java_home, PYSPARK)
    fcntl.flock(lock, fcntl.LOCK_UN)
    if command:
        environment = child_environment(java_home, jar_dir)
        try:
            os.execvpe(command[0], command, environment)
        except OSError as error:
            raise SetupError(f"cannot run {command[0]}: {error.strerror}") from error


def make_venv() -> None:
    """Bring .venv to exactly what requirements.txt says, plus this project, editable."""
    home = {"root": str(ROOT), "python": sys.version.split()[0]}
    done = {
        **home,
        "packages": digest(ROOT / "requirements.txt"),
        "project": digest(ROOT / "pyproject.toml"),
    }
    before = read_stamp()
    if before == done and PYTHON.exists():
        return
    say(f"setting up {VENV}")
    # Scripts in a virtual environment carry its absolute path: after a move, make it anew.
    if {key: before.get(key) for key in home} != home or not PYTHON.exists():
        shutil.rmtree(VENV, ignore_errors=True)
        create_venv()
        before = {}
    STAMP.unlink(missing_ok=True)  # whatever stops us from here on, the next run begins again
    if before.get("packages") != done["packages"]:
        install_uv()
        uv("pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode", "requirements.txt")
    uv("pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", ".")
    write_stamp(done)


def create_venv() -> None:
    make = [BASE_PYTHON, "-m", "venv", str(VENV)]
    if subprocess.run(make, capture_output=True, check=False).returncode == 0:
        return
    # Debian splits ensurepip off into a package of its own.
    debian_package("python3.11-venv")
    shutil.rmtree(VENV, ignore_errors=True)
    result = subprocess.run(make, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SetupError(
            f"{' '.join(make)} failed: {(result.stdout + result.stderr).strip()}\n"
            "Install the venv module of your Python 3.11 (Debian: apt-get install "
            "python3.11-venv), then run again."
        )


def install_uv() -> None:
    """Install the locked uv with pip, from a wheel kept in our cache so that it works offline."""
    locked_set = (ROOT / "requirements.txt").read_text()
    lock = re.search(r"^uv==(\S+).*?(?=^\S|\Z)", locked_set, re.MULTILINE | re.DOTALL)
    if lock is None:
        raise SetupError("requirements.txt does not pin uv. Run `make lock` where uv is installed.")
    wheels = cache_dir() / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    pinned = VENV / "uv.txt"
    pinned.write_text(lock[0])
    pip = [str(PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    locked = ["--require-hashes", "--no-deps", "--requirement", str(pinned)]
    if not any(wheels.glob(f"uv-{lock[1]}-*.whl")):
        run([*pip, "download", *locked, "--only-binary", ":all:", "--dest", str(wheels)])
    run([*pip, "install", *locked, "--no-index", "--find-links", str(wheels)])


def uv(*arguments: str) -> None:
    """Run uv on .venv: from its cache if that holds everything, else from the package index."""
    command = [str(VENV / "bin" / "uv"), *arguments, "--python", str(PYTHON)]
    offline = subprocess.run([*command, "--offline"], cwd=ROOT, capture_output=True, check=False)
    if offline.returncode != 0:
        run(command)


def run(command: list[str]) -> None:
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise SetupError(
            f"this step failed, its reason is above: {' '.join(command)}\n"
            "If it could not reach the package index, check the network (pip's and uv's own "
            "settings for an index or a proxy apply), then run again."
        )


def child_environment(java_home: Path, jar_dir: Path) -> dict[str, str]:
    environment = os.environ | {
        "PATH": f"{VENV / 'bin'}:{java_home / 'bin'}:{os.environ.get('PATH', os.defpath)}",
        "VIRTUAL_ENV": str(VENV),
        "JAVA_HOME": str(java_home),
        # Said outright: another Spark would be preferred over the pinned pyspark, and its own
        # search for one breaks where the checkout's path has a space.
        "SPARK_HOME": str(PYSPARK),
        "PYSPARK_PYTHON": str(PYTHON),  # executors must run the Python that the driver runs
        "MELTLINE_JARS": str(jar_dir),
        "PYTHONPATH": str(ROOT / "include"),
        "GX_ANALYTICS_ENABLED": "false",  # nothing we start calls home
    }
    return environment


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_stamp() -> dict[str, str]:
    try:
        return dict(json.loads(STAMP.read_text()))
    except (OSError, ValueError):
        return {}


def write_stamp(done: dict[str, str]) -> None:
    STAMP.write_text(json.dumps(done, indent=2))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SetupError as error:
        sys.exit(f"setup: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
