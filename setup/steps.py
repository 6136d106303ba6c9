"""What the set-up scripts share."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path


class SetupError(Exception):
    """Set-up cannot go on; the message says why and what to do next."""


def say(message: str) -> None:
    """Report progress, away from stdout: that belongs to the command which runs afterwards."""
    print(f"setup: {message}", file=sys.stderr, flush=True)


def cache_dir() -> Path:
    """Where downloads are kept: outside the tree, so that every checkout shares them."""
    xdg = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("MELTLINE_CACHE") or Path(xdg) / "meltline").absolute()


def wait_for(lock: int, holder: str) -> None:
    """Take the file lock; say for whom we wait, should it come to that."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"waiting for {holder}")
        fcntl.flock(lock, fcntl.LOCK_EX)


def debian_package(name: str) -> bool:
    """Install a Debian package where we may; the caller explains the way out where we may not."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    say(f"installing the Debian package {name}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", name]
    # A fresh machine has no package lists yet, an old one has stale ones.
    for command in (["apt-get", "update", "--quiet"], install):
        subprocess.run(command, env=environment, stdout=sys.stderr, check=False)
    return True
