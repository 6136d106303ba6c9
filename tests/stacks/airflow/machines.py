"""An Airflow over several machines: one process group, home and name for each, one loopback."""

import os
import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import psutil

from tests.dags.airflow_home import (
    ROOT,
    AirflowHome,
    RunningAirflow,
    admin_settings,
    free_ports,
    logged_in,
    running_component,
)
from tests.stacks.airflow.databases import Database
from tests.stacks.airflow.host_name import VARIABLE

SCHEDULERS = ("scheduler-1", "scheduler-2")
WORKERS = ("worker-1", "worker-2")
_PATIENCE = 180  # seconds for all of them to start


@dataclass(frozen=True)
class Machines:
    """What runs, and where.

    Attributes:
        processes: The leader of each machine's processes, by the machine's name.
    """

    airflow: RunningAirflow
    metadata: Database
    folder: Path
    processes: dict[str, "Popen[bytes]"] = field(default_factory=dict)

    def are_ready(self, workers: Sequence[str]) -> bool:
        """Whether both schedulers, and these workers, take tasks; nothing may have ended by now."""
        logs = {
            name: (self.folder / name / "log").read_text(errors="replace")
            for name in self.processes
        }
        for name, process in self.processes.items():
            assert process.poll() is None, f"{name} has ended:\n{logs[name][-3000:]}"
        waiting = set(workers) - {name for name in workers if " ready." in logs[name]}
        return self.alive_schedulers() == set(SCHEDULERS) and not waiting

    def alive_schedulers(self) -> set[str]:
        """The machines of schedulers whose heart has beaten of late."""
        rows = self.metadata.rows(
            "SELECT hostname FROM job WHERE job_type = 'SchedulerJob' AND state = 'running' "
            "AND latest_heartbeat > now() - interval '30 seconds'"
        )
        return {str(name) for (name,) in rows}

    def schedulers_of(self, run_id: str, *states: str) -> list[str]:
        """The machines whose schedulers answer for the run's tasks that are in these states."""
        rows = self.metadata.rows(
            "SELECT job.hostname FROM task_instance task "
            "JOIN job ON job.id = task.queued_by_job_id "
            "WHERE task.run_id = %s AND task.state = ANY(%s)",
            run_id,
            list(states),
        )
        return [str(name) for (name,) in rows]

    def hosts(self) -> set[str]:
        """The machines on which tasks have run."""
        rows = self.metadata.rows("SELECT DISTINCT hostname FROM task_instance")
        return {str(name) for (name,) in rows if name}

    def tries(self, run_id: str) -> int:
        """The highest try of any of a run's tasks; those that were given up count."""
        rows = self.metadata.rows(
            "SELECT max(try_number) FROM (SELECT run_id, try_number FROM task_instance UNION ALL "
            "SELECT run_id, try_number FROM task_instance_history) tries WHERE run_id = %s",
            run_id,
        )
        return int(str(rows[0][0]))

    def has_had_a_driver(self, machine: str) -> bool:
        """Whether a run's driver was ever started on a machine."""
        return any((self.folder / machine / "r").iterdir())

    def kill(self, machine: str) -> None:
        """Has a machine go down: all at once, and nothing of it is told."""
        leader = psutil.Process(self.processes[machine].pid)
        every = [leader, *leader.children(recursive=True)]
        for process in every:
            process.kill()
        psutil.wait_procs(every, timeout=_PATIENCE)


@contextmanager
def running_machines(
    folder: Path, project: Path, metadata: Database, workers: int, **extra: str
) -> Iterator[Machines]:
    """Starts an API server, a DAG processor and two schedulers, and as many Celery workers.

    Args:
        folder: Takes a folder for each machine.
        project: The folder with dags/.
        metadata: Airflow's database, still empty.
        workers: How many workers there are; with none, tasks run beside their scheduler.
        extra: Further environment of all.
    """
    password = secrets.token_hex(8)
    (port,) = free_ports(1)
    folder.mkdir()
    settings = {**admin_settings(folder, port, password), **_shared(folder, metadata), **extra}
    home = AirflowHome(folder, project, settings, (port, 0, 0))
    home.airflow("db", "migrate")
    components = {
        "api": ["api-server"],
        "dags": ["dag-processor"],
        **{name: ["scheduler", "--skip-serve-logs"] for name in SCHEDULERS},
        **{
            name: ["celery", "worker", "--skip-serve-logs", "--celery-hostname", name]
            for name in WORKERS[:workers]
        },
    }
    processes: dict[str, Popen[bytes]] = {}
    with ExitStack() as stack:
        for name, words in components.items():
            environment = {**home.environment, **_own(folder / name, name)}
            log = folder / name / "log"
            processes[name] = stack.enter_context(running_component(words, environment, log))
        stack.callback(_terminate, processes)  # side by side; then each is waited for
        api_log = folder / "api" / "log"
        airflow = stack.enter_context(logged_in(home, password, processes["api"], api_log))
        machines = Machines(airflow, metadata, folder, processes)
        airflow.until(lambda: machines.are_ready(WORKERS[:workers]), seconds=_PATIENCE)
        yield machines


def _shared(folder: Path, metadata: Database) -> Mapping[str, str]:
    """What all machines have in common."""
    return {
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__CORE__HOSTNAME_CALLABLE": "tests.stacks.airflow.host_name.host_name",
        "AIRFLOW__CORE__PARALLELISM": "1",  # of one scheduler: of two tasks each takes one
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": metadata.url,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": metadata.url,
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",  # else every five minutes
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "180",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # the first answer is slow
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",  # until it is seen that a task has ended
        "PYTHONPATH": f"{ROOT / 'include'}:{ROOT}",
    }


def _own(folder: Path, name: str) -> Mapping[str, str]:
    """What is a machine's own: its name, and what lies on its disk."""
    folder.mkdir()
    (folder / "r").mkdir(mode=0o700)
    return {"AIRFLOW_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder / "r"), VARIABLE: name}


def _terminate(processes: Mapping[str, "Popen[bytes]"]) -> None:
    for process in processes.values():
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
