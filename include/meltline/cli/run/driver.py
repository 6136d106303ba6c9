"""`python -m meltline.cli.run.driver FOLDER MASTER`: leaves itself behind, and waits for steps."""

import os
import socket
import sys
import traceback
from pathlib import Path

from meltline.driver.place import DriverPlace
from meltline.driver.server import Driver
from meltline.wiring import step_jvm, to_stderr


def main(folder: str, master: str) -> None:
    """Returns at once in the process that was called; goes on in one that nobody waits for."""
    place = DriverPlace(Path(folder))
    os.close(os.pidfd_open(os.getpid()))  # where the kernel has none, nobody is told to wait
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.socket))
        listener.listen()
        if os.fork():
            os._exit(0)
        os.setsid()
        try:
            _serve(place, listener, master)
        except Exception:  # said before the socket closes, and left for the task that waits there
            to_stderr(traceback.format_exc())
            sys.exit(1)
        place.remove()


def _serve(place: DriverPlace, listener: socket.socket, master: str) -> None:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else is to connect
    with step_jvm(master, imports=_import_steps) as gateway:
        Driver(listener, place.token(), gateway).serve()


def _import_steps() -> None:
    """What apps import; not above, since a JVM takes its time to start meanwhile."""
    import meltline.cli.run.step  # noqa: F401, PLC0415


if __name__ == "__main__":
    main(*sys.argv[1:])
