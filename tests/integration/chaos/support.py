"""Instances of an application as processes that tests start, kill, stop and wait for."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import attrs
import psutil
import pytest

from streamlet.clock import SystemClock
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.ports import fetch_committed
from streamlet.coordinator.transport import Transport
from streamlet.errors import StreamletError, UnreachableError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition
from tests.integration.chaos.fork_server import Forked, start
from tests.integration.chaos.slow_disk import SLOW
from tests.integration.chaos.topologies import LATEST, NAME, SHAPE, SHAPES

PARTITIONS = 4
#: The broker refuses less than 6 s.
SETTINGS = {"session.timeout.ms": "6000", "commit.interval.ms": "200"}
#: Where no member dies: none is to be lost because the machine stood still for some seconds.
LONG_SESSIONS = {"session_timeout_ms": "60000"}

T = TypeVar("T")

#: Between two looks at what lasts once it has come, s: a whole group is dear to look at.
SELDOM_S = 0.2


def wait_for(
    found: Callable[[], T],
    what: str | Callable[[], str],
    timeout_s: float = 300.0,
    pause_s: float = 0.05,
) -> T:
    """The first answer that is true; ``what`` is said when there is none in time.

    Trouble that may pass is no answer: a broker on a machine that is full may take long for one.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        trouble = ""
        try:
            if answer := found():
                return answer
        except StreamletError as error:
            if not error.passing:
                raise
            trouble = f" ({error})"
        if time.monotonic() > deadline:
            said = what if isinstance(what, str) else what()
            pytest.fail(f"not in {timeout_s:.0f} s: {said}{trouble}")
        time.sleep(pause_s)


@attrs.frozen
class Committed:
    """One committed position; -1 and None where there is none."""

    offset: int
    metadata: CommitMetadata | None


class Instance:
    """One ``streamlet run``: a supervisor and its workers. ``state`` is its state.dir."""

    def __init__(
        self, name: str, words: list[str], environ: Mapping[str, str], folder: Path
    ) -> None:
        self.name = name
        self.folder = folder
        self.state = folder / "state"
        self._words = words
        self._environ = dict(environ)
        self._runs = 0
        self.process: Forked | None = None
        self._seen: set[psutil.Process] = set()

    @property
    def log_file(self) -> Path:
        """Standard error of the latest run."""
        return self.folder / f"log-{self._runs}.txt"

    def log(self) -> str:
        """What the latest run said so far."""
        return self.log_file.read_text(errors="replace")

    def log_with_stacks(self) -> str:
        """What the latest run said, and where the threads of its workers are, which end by it."""
        with contextlib.ExitStack() as ended:
            for pid in self.workers():
                ended.callback(psutil.wait_procs, [psutil.Process(pid)], 5)
                os.kill(pid, signal.SIGABRT)
        return self.log()

    def start(self) -> Instance:
        """Start it, on the state it has; returns at once."""
        assert self.process is None or self.process.poll() is not None
        self._runs += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("wb") as out:
            words = [*self._words, "--name", self.name, "--state-dir", str(self.state)]
            self.process = start(words, self._environ, out)
        return self

    def workers(self) -> list[int]:
        """Pids of its living workers, oldest first."""
        said = self.log()
        if "started (pid" not in said:  # to look through all processes is dear
            return []
        return [pid for pid in self._children() if f"started (pid {pid})" in said]

    def _children(self) -> list[int]:
        assert self.process is not None
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
            living = [c for c in children if c.status() != psutil.STATUS_ZOMBIE]
        except psutil.NoSuchProcess:
            living = []
        self._seen.update(living)
        return sorted(child.pid for child in living)

    def await_workers(self) -> list[int]:
        """Its workers, as soon as there are any."""
        return wait_for(self.workers, lambda: f"{self.name} has no worker\n{self.log()}")

    def kill_worker(self, pid: int) -> None:
        """SIGKILL to one worker; the supervisor starts another."""
        os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL to all of it, as if the machine had failed.

        The supervisor cannot start another worker meanwhile, as it is stopped first; and no worker
        can see that it is gone, which would have it leave the group.
        """
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        for pid in self._children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self._await_gone()

    def interrupt(self) -> None:
        """Ctrl-C, once."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)

    def drain(self) -> None:
        """Have it hand over all of its tasks and end."""
        wait_for(lambda: "started (pid" in self.log(), lambda: f"it starts\n{self.log()}")
        assert self.process is not None
        self.process.send_signal(signal.SIGUSR1)

    def wait(self, timeout_s: float = 300.0) -> int:
        """Its exit code, when it is over."""
        assert self.process is not None
        return self.process.wait(timeout_s)

    def stop(self) -> int:
        """Ctrl-C and wait; the exit code."""
        # Before that Python itself would answer, in the middle of an import.
        wait_for(lambda: "started (pid" in self.log(), lambda: f"it starts\n{self.log()}")
        self.workers()
        self.interrupt()
        return self.wait()

    def end(self) -> None:
        """See that nothing of it lives, whatever happened."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        for process in filter(_lives, self._seen):
            process.kill()

    def _await_gone(self) -> None:
        wait_for(lambda: not any(map(_lives, self._seen)), f"{self.name} does not die")


def limit_files(pid: int, most: int) -> None:
    """Let no file of a process grow beyond so many bytes, from now on."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def _lives(process: psutil.Process) -> bool:
    """Whether it is still that process, and not another of its number."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@attrs.frozen
class Moment:
    """Commits of all tasks at some time, on the monotonic clock."""

    at: float
    commits: dict[TaskId, Committed]


class Watch(threading.Thread):
    """Looks at a cluster's commits again and again."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._over = threading.Event()
        self.moments: list[Moment] = []

    def run(self) -> None:
        """Look until told to stop."""
        while not self._over.wait(0.05):
            found = self._cluster.committed()
            commits = {task: self._cluster.of_task(task, found) for task in self._cluster.tasks}
            self.moments.append(Moment(time.monotonic(), commits))

    def finish(self) -> list[Moment]:
        """All that was seen."""
        self._over.set()
        self.join()
        return self.moments


class Cluster:
    """One application on one broker, with its topics, and all its instances."""

    def __init__(
        self,
        servers: str,
        folder: Path,
        shape: str = "counting",
        *,
        partitions: int = PARTITIONS,
        **settings: str,
    ) -> None:
        self.servers = servers
        self.partition_count = partitions
        self.name = f"chaos-{uuid.uuid4().hex[:8]}"
        self.folder = folder / self.name
        self.topology: Topology = SHAPES[shape](self.name).topology()
        self.admin = KafkaAdmin(servers)
        self.instances: list[Instance] = []
        self.transport = Transport(servers, client_id="chaos")
        self._settings = {**SETTINGS, **{k.replace("_", "."): v for k, v in settings.items()}}
        self._environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("STREAMLET_", "COV_"))},
            NAME: self.name,
            SHAPE: shape,
            SLOW: str(self.folder),
            "PYTHONUNBUFFERED": "1",
        }
        sinks = {s.topic for part in self.topology.subtopologies for s in part.sinks}
        own = sinks - set(self.topology.repartition_topics)
        stamped = (("message.timestamp.type", "LogAppendTime"),)
        self.admin.create_topics(
            [NewTopic(t, partitions) for t in self.topology.source_topics]
            + [NewTopic(t, partitions, config=stamped) for t in sorted(own)]
        )

    def instance(
        self,
        name: str,
        processes: int = 1,
        state_of: Instance | None = None,
        shape: str | None = None,
        more: Sequence[str] = (),
        latest: int | None = None,
    ) -> Instance:
        """A new instance, not started.

        ``state_of``: it takes over the folder of that one. ``shape``: it runs another topology.
        ``more``: options of ``streamlet run``. ``latest``: it is an older program, which knows our
        bytes up to this version.
        """
        words = ["run", "tests.integration.chaos.topologies:app"]
        words += ["--bootstrap-servers", self.servers, "--log-level", "info"]
        words += ["--processes", str(processes)]
        for key, value in self._settings.items():
            words += ["--set", f"{key}={value}"]
        words += more
        folder = self.folder / f"{name}-{len(self.instances)}"
        others = {SHAPE: shape, LATEST: None if latest is None else str(latest)}
        environ = self._environ | {k: v for k, v in others.items() if v is not None}
        made = Instance(name, words, environ, folder)
        if state_of is not None:
            made.state = state_of.state
        self.instances.append(made)
        return made

    def topic(self, name: str) -> str:
        """The application's topic of that short name."""
        return f"{self.name}-{name}"

    def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        return [TopicPartition(topic, p) for p in range(self.partition_count)]

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """All tasks of the application."""
        counts = dict.fromkeys(self.topology.source_topics, self.partition_count)
        return self.topology.tasks(self.topology.partition_counts(counts))

    @property
    def inputs(self) -> list[TopicPartition]:
        """Every partition that a task reads."""
        topics = (*self.topology.source_topics, *self.topology.repartition_topics)
        return [tp for topic in topics for tp in self.partitions(topic)]

    def committed(self) -> dict[TopicPartition, Committed]:
        """What the group has committed of all inputs."""
        found = fetch_committed(
            self.transport,
            self.name,
            self.inputs,
            timeout_ms=60_000,
            clock=SystemClock(),
            pause=threading.Event().wait,
        )
        return {
            tp: Committed(one.offset, CommitMetadata.from_text(one.metadata))
            for tp, one in found.items()
        }

    def of_task(self, task: TaskId, found: Mapping[TopicPartition, Committed]) -> Committed:
        """A task's commit: that of its first input."""
        topic = self.topology.subtopology(task.subtopology).input_topics[0]
        return found[TopicPartition(topic, task.partition)]

    def owners(self) -> dict[TaskId, str]:
        """Member that committed each task last; tasks without a commit are left out."""
        found = self.committed()
        known = {task: self.of_task(task, found).metadata for task in self.tasks}
        return {task: metadata.by for task, metadata in known.items() if metadata is not None}

    def await_running(self, timeout_s: float = 300.0) -> None:
        """Wait until every task was committed by somebody."""
        wait_for(
            lambda: len(self.owners()) == len(self.tasks),
            lambda: f"only these run: {self.owners()}\n{self.logs()}",
            timeout_s,
            SELDOM_S,
        )

    def await_settled(self, timeout_s: float = 300.0) -> None:
        """Wait until everything that is there was processed and committed."""

        def settled() -> bool:
            if not {tp.topic for tp in self.inputs} <= set(self.admin.topics()):
                return False  # nobody has made the internal ones yet
            found = self.committed()
            ends = self.admin.end_offsets(self.inputs)
            return all(found[tp].offset == end for tp, end in ends.items())

        wait_for(
            settled, lambda: f"settled: {self.committed()}\n{self.logs()}", timeout_s, SELDOM_S
        )

    def logs(self) -> str:
        """The ends of all logs, for people."""
        ran = [i for i in self.instances if i.log_file.exists()]
        return "\n".join(f"--- {i.name} ({i.log_file})\n{i.log()[-3000:]}" for i in ran)

    def end(self) -> None:
        """Kill what is left."""
        for instance in self.instances:
            instance.end()
        self.transport.close()

    def delete_topics(self) -> None:
        """Delete its topics: each makes every later restart of the broker longer."""
        with contextlib.suppress(UnreachableError):  # topics end with a broker that is down
            self.admin.delete_topics([t for t in self.admin.topics() if t.startswith(self.name)])


@contextlib.contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster of which nothing is left behind."""
    try:
        yield cluster
    finally:
        cluster.end()
