"""Daemon that shares one Spark session among a run's steps.

`driver/client` starts it as `python -m meltline.cli.run.driver FOLDER MASTER`. The protocol is in
`meltline/driver`.
"""

import os
import socket
import sys
import traceback
from pathlib import Path

from meltline.driver.place import DriverPlace
from meltline.driver.server import Driver
from meltline.wiring import step_jvm, to_stderr


def main(folder: str, master: str) -> None:
    """Daemonizes: returns at once in the calling process, and serves steps in a detached one."""
    place = DriverPlace(Path(folder))
    os.close(os.pidfd_open(os.getpid()))  # fails here if the kernel lacks it, before a task waits
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.socket))
        listener.listen()
        if os.fork():
            os._exit(0)
        os.setsid()
        try:
            _serve(place, listener, master)
        except Exception:  # reported before the socket closes, for the task that waits
            to_stderr(traceback.format_exc())
            sys.exit(1)
        place.remove()


def _serve(place: DriverPlace, listener: socket.socket, master: str) -> None:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # for local connections only
    with step_jvm(master, imports=_import_steps) as gateway:
        Driver(listener, place.token(), gateway).serve()


def _import_steps() -> None:
    """Imports the modules of apps; only now, since the JVM starts meanwhile."""
    import meltline.cli.run.step  # noqa: F401, PLC0415


if __name__ == "__main__":
    main(*sys.argv[1:])
