"""Redis from the machine's own packages: the broker between schedulers and workers."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stacks.s3.processes import running


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """Starts a server that ends with the block, and gives its URL.

    Where Redis is not installed the tests that need it are skipped (tests.real_parts).
    """
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("Redis is not installed (Debian: apt-get install redis-server)")
    folder.mkdir()
    settings = folder / "redis.conf"
    password = secrets.token_hex(12)
    settings.write_text(
        f'bind 127.0.0.1\nsave ""\nappendonly no\ndir "{folder}"\nrequirepass {password}\n'
    )
    with running(lambda port: [program, str(settings), "--port", str(port)], folder / "log") as at:
        yield f"redis://:{password}@127.0.0.1:{at}/0"
