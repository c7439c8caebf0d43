"""One worker in the calling process: what ``App.run`` does.

For notebooks, debuggers and scripts. The worker is the one of ``streamlet run``; only the
supervisor is missing.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import attrs

from streamlet.assignor.values import Leaving
from streamlet.clock import Clock, SystemClock
from streamlet.config import Settings
from streamlet.errors import TimedOutError
from streamlet.hosting.assembly import open_worker
from streamlet.hosting.broker_wait import BrokerWait, StartStoppedError
from streamlet.hosting.preparing import clear_left_over, forget_instance, prepare_instance
from streamlet.hosting.restarts import run_replaced
from streamlet.hosting.signals import GracefulStop
from streamlet.logs import get_logger
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.rebalance.leader import Assignor
from streamlet.runtime.listeners import Listeners
from streamlet.runtime.metrics.server import LOCAL_HOST, serving
from streamlet.runtime.stream_thread import StreamThread
from streamlet.runtime.worker_group import MemberIdentity
from streamlet.state.directory import FolderLock, StateDirectory
from streamlet.state.instances import InstanceRecord
from streamlet.tasks.restore_job import RestoreProgress
from streamlet.topology.graph import Topology
from streamlet.types import TaskId

log = get_logger(__name__)

#: Results kept for the caller; older ones make room.
MOST_RESULTS = 100_000


@attrs.frozen
class OutputValue:
    """A record that the application wrote. ``timestamp`` is in ms since the epoch."""

    topic: str
    key: Any
    value: Any
    timestamp: int


class RunResults:
    """Counts and keeps what a worker writes to topics that are not ours.

    Args:
        topology: what runs.
        keep: whether the records are wanted, or only their number.
    """

    def __init__(self, topology: Topology, keep: bool) -> None:
        self.count = 0
        #: The most tasks that ran at once.
        self.most_tasks = 0
        #: Called with the number of tasks that run.
        self.on_tasks: Callable[[int], None] = lambda tasks: None
        self.keep = keep
        self._kept: deque[tuple[str, bytes | None, bytes | None, int]] = deque(maxlen=MOST_RESULTS)
        self._inputs = {
            topic
            for part in topology.subtopologies
            for topic in (*part.input_topics, *part.patterns)
            if topic not in topology.repartition_topics
        }
        #: Serdes by topic; those of sinks that choose a topic for each record by "".
        self._serdes = {
            sink.topic: (sink.key, sink.value)
            for part in topology.subtopologies
            for sink in part.sinks
            if sink.topic not in topology.repartition_topics
        }

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        """The tasks changed."""
        self.most_tasks = max(self.most_tasks, len(tasks))
        self.on_tasks(len(tasks))

    def restoring(self, progress: RestoreProgress) -> None:
        """Ignore restoring: it is not shown here."""

    def produced(self, outputs: list[Output]) -> None:
        """Take outputs that were handed to the producer."""
        for out in outputs:
            if out.topic in self._serdes or out.by_record:
                self.count += len(out.keys)
                if self.keep:
                    topics = [out.topic] * len(out.keys)
                    self._kept.extend(
                        zip(topics, out.keys, out.values, out.timestamps, strict=True)
                    )

    def decoded(self) -> list[OutputValue]:
        """The outputs that were kept, as the application wrote them, oldest first."""
        return [self._decoded(*record) for record in self._kept]

    def explain(self, records: int) -> str:
        """Explain a run that processed so many records and returns none, and what would help."""
        if not self.most_tasks:
            return "had no task; another instance may have them all, or it needs more time"
        did = f"ran {self.most_tasks} tasks and processed {records:,} records"
        if not records:
            where = " and ".join(sorted(self._inputs)) or "its topics"
            return f"{did}; there was nothing new in {where} (App.reset begins with the old)"
        if not self._serdes:
            return f"{did}; its topology writes to no topic, so there are no results to return"
        if self.keep:
            topics = [topic or "a topic chosen for it" for topic in sorted(self._serdes)]
            return f"{did}; none of them led to a record in {' or '.join(topics)}"
        return f"{did}, wrote {self.count:,}; with count= or timeout= it returns them"

    def _decoded(
        self, topic: str, key: bytes | None, value: bytes | None, time: int
    ) -> OutputValue:
        key_serde, value_serde = self._serdes.get(topic) or self._serdes[""]
        return OutputValue(
            topic,
            None if key is None else key_serde.decode(key),
            None if value is None else value_serde.decode(value),
            time,
        )


class Run:
    """A run in the calling thread; ``stop`` and ``drain`` may come from any other."""

    def __init__(self, topology: Topology, settings: Settings, clock: Clock | None = None) -> None:
        self._topology = topology
        self._settings = settings
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._drain = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.get_ident()
        self._leaves = False
        self._records = 0
        #: The instance's process id, once it is known.
        self.process_id: str | None = None
        #: Where metrics are served, while they are.
        self.metrics_url: str | None = None

    def run(
        self,
        *,
        listeners: Listeners,
        assignor: Assignor | None,
        policy: ErrorPolicy,
        count: int | None,
        timeout_ms: int | None,
        name: str | None,
        metrics_port: int | None = None,
        metrics_host: str = LOCAL_HOST,
        wait_for_broker_ms: int | None = None,
    ) -> list[OutputValue]:
        """Work until stopped, or ``count`` results or ``timeout_ms`` are reached; the results.

        At the start it waits for a broker, for ``wait_for_broker_ms`` and ``timeout_ms`` at most.

        Raises:
            StreamletError: what ended the worker.
            TimedOutError: no broker answered in time.
        """
        results = RunResults(self._topology, keep=count is not None or timeout_ms is not None)
        deadline = None if timeout_ms is None else self._clock.now_ms() + timeout_ms

        def wanted() -> bool:
            return not (
                self._stop.is_set()
                or (count is not None and results.count >= count)
                or (deadline is not None and self._clock.now_ms() >= deadline)
            )

        application = self._topology.application
        try:
            process_id, lock = StateDirectory(self._settings.state_dir, application).lock_instance()
            self.process_id = process_id
            member = MemberIdentity(process_id, name or socket.gethostname())
            served = serving(
                *(application, member.name, 1, self._settings, metrics_port),
                host=metrics_host,
                told=self._serving,
            )
            with lock, served as exposition, _signals() as signals:
                opened = partial(
                    open_worker,
                    self._topology,
                    self._settings,
                    member,
                    assignor=assignor,
                    policy=policy,
                    observer=listeners.around(results),
                    measured=None if exposition is None else partial(exposition.take, 0),
                    endpoint=None if exposition is None else exposition.address,
                    clock=self._clock,
                    leaves=lambda: self._leaves,
                )
                record = InstanceRecord(lock, member.name)
                results.on_tasks = lambda tasks: record.say(tasks=tasks)
                prepared = partial(self._prepare, process_id, lock)
                waiting = self._waiting(signals, wait_for_broker_ms, timeout_ms)
                self._work(member.instance, prepared, opened, record, signals, wanted, waiting)
        finally:
            self._ended.set()
            self.metrics_url = None
        return self._returned(results)

    def _returned(self, results: RunResults) -> list[OutputValue]:
        """The results; where there are none, the log says what was done."""
        found = results.decoded()
        if not found:
            # Results that were asked for and are missing are worth a line in every notebook.
            level = logging.WARNING if results.keep else logging.INFO
            log.log(level, "%s %s", self._topology.application, results.explain(self._records))
        return found

    def _work(
        self,
        instance: str,
        prepared: Callable[[], None],
        opened: Callable[..., StreamThread],
        record: InstanceRecord,
        signals: GracefulStop | None,
        wanted: Callable[[], bool],
        waiting: BrokerWait,
    ) -> None:
        """Run a worker, and say in the state folder what others on this host may know of it."""
        application, ended = self._topology.application, "failed"

        def on_leaving(leaving: Leaving | None) -> None:
            record.say(leaving_since_ms=0 if leaving is None else leaving.since_ms)

        try:
            record.say(drains=int(signals is not None))
            waiting.until_done(prepared)
            worker = run_replaced(
                partial(waiting.until_done, partial(opened, on_leaving=on_leaving)),
                partial(self._run_worker, signals=signals, wanted=wanted),
                clock=self._clock,
                stopped=lambda: self._stopped(signals) or not wanted(),
            )
            if worker.drained:
                forget_instance(application, self._settings, instance)
            ended = "drained" if worker.drained else "stopped"
        except StartStoppedError:
            ended = "stopped"
        finally:
            record.say(drains=0, tasks=0, ended=ended)

    def _run_worker(
        self, worker: StreamThread, *, signals: GracefulStop | None, wanted: Callable[[], bool]
    ) -> None:
        try:
            worker.run(lambda: self._goes_on(worker, signals) and wanted())
        finally:
            self._records += worker.counters.records

    def _prepare(self, process_id: str, lock: FolderLock) -> None:
        """Make what the run needs on the broker; may be repeated."""
        clear_left_over(self._topology, self._settings, process_id, lock, 1)
        prepare_instance(self._topology, self._settings, process_id, lock)

    def _waiting(self, signals: GracefulStop | None, *limits_ms: int | None) -> BrokerWait:
        """The wait for a broker, until the first of the limits."""
        return BrokerWait(
            self._settings,
            stopped=partial(self._stopped, signals),
            limit_ms=min((ms for ms in limits_ms if ms is not None), default=None),
            clock=self._clock,
            option="wait_for_broker or timeout of run()",
        )

    def _stopped(self, signals: GracefulStop | None) -> bool:
        """True if a stop, or a drain, ends the start: there are no tasks to hand over yet."""
        if self._stop.is_set() or self._drain.is_set():
            return True
        return signals is not None and (signals.asked.is_set() or signals.drain.is_set())

    def _goes_on(self, worker: StreamThread, signals: GracefulStop | None) -> bool:
        """Pass a request to leave on; True if no signal has stopped us."""
        for drain in (self._drain, *(() if signals is None else (signals.drain,))):
            if drain.is_set():
                drain.clear()
                worker.drain(self._clock.wall_ms())
        return signals is None or not signals.asked.is_set()

    def _serving(self, url: str) -> None:
        self.metrics_url = url
        log.info("metrics on %s/metrics", url)

    def stop(self, leave: bool = False) -> None:
        """Ask for a graceful stop and, from another thread, wait until it is done.

        ``leave``: for good, so that a static id does not keep its tasks for a restart.
        """
        self._leaves = leave
        self._stop.set()
        if threading.get_ident() != self._thread:
            self._ended.wait()

    def drain(self, timeout_ms: int | None) -> None:
        """Have all tasks handed over and, from another thread, wait until the run has ended.

        Raises:
            TimedOutError: it has not in time; it goes on.
        """
        self._drain.set()
        if threading.get_ident() == self._thread:
            return
        if not self._ended.wait(None if timeout_ms is None else timeout_ms / 1000):
            raise TimedOutError(f"not drained within {timeout_ms} ms; it goes on")


def _signals() -> AbstractContextManager[GracefulStop | None]:
    """Ctrl-C once stops gracefully, twice at once; signals reach the main thread only."""
    if threading.current_thread() is threading.main_thread():
        return GracefulStop(drains=True)
    return nullcontext()
