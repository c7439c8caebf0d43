"""One worker in the calling process: what ``App.run`` does.

For notebooks, debuggers and scripts. The worker is the one of ``streamlet run``; only the
supervisor is missing.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from streamlet.absent import explains_misuse
from streamlet.clock import Clock, SystemClock
from streamlet.counted import counted
from streamlet.errors import TimedOutError
from streamlet.hosting.host import Host, MetricsPlace
from streamlet.hosting.hosted import HostedApp
from streamlet.hosting.requests import HostRequests
from streamlet.hosting.signals import GracefulStop
from streamlet.hosting.worker_events import Event
from streamlet.logs import get_logger
from streamlet.processing.outputs import Output
from streamlet.runtime.metrics.server import LOCAL_HOST
from streamlet.topology.graph import Topology

log = get_logger(__name__)

#: Results kept for the caller; older ones make room.
MOST_RESULTS = 100_000


@explains_misuse
@dataclass(frozen=True, slots=True)
class OutputValue:
    """A record that the application wrote; many are rows of ``pandas.DataFrame``.

    ``timestamp`` is in ms since the epoch.
    """

    topic: str
    key: Any
    value: Any
    timestamp: int


class RunResults:
    """Counts and keeps what a worker writes to topics that are not ours.

    Args:
        topology: what runs.
        keep: whether the records are wanted, or only their number.
        after_commit: whether only those count that are committed.
        wanted: how many records end the run; None is no limit.
    """

    def __init__(
        self,
        topology: Topology,
        keep: bool,
        *,
        after_commit: bool = False,
        wanted: int | None = None,
    ) -> None:
        self._wanted = wanted
        self._after_commit = after_commit
        #: Outputs that are not committed yet, where only those count that are.
        self._open: list[Output] = []
        self.count = 0
        #: The most tasks that ran at once.
        self.most_tasks = 0
        #: Records that were processed.
        self.records = 0
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

    def take(self, member: int, event: Event) -> None:
        """Add up the tasks and records that a worker reports."""
        if event["event"] == "state":
            self.most_tasks = max(self.most_tasks, len(event["tasks"]))
        elif event["event"] == "ended":
            self.records += event["records"]

    def produced(self, outputs: list[Output]) -> None:
        """Take outputs that were handed to the producer."""
        if self._after_commit:
            self._open += outputs
        else:
            self._count(outputs)

    def settled(self, counts: bool) -> None:
        """Count what was produced since the last call, or never."""
        outputs, self._open = self._open, []
        if counts:
            self._count(outputs)

    def _count(self, outputs: list[Output]) -> None:
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

    def explain(self) -> str:
        """Explain a run that returns no records, and what would help."""
        if self._wanted == 0:
            return "did nothing: count=0 is reached before the first record; give 1 or more"
        if not self.most_tasks:
            return "had no task; another instance may have them all, or it needs more time"
        tasks, records = counted(self.most_tasks, "task"), counted(self.records, "record")
        did = f"ran {tasks} and processed {records}"
        if not self.records:
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

    def __init__(self, app: HostedApp, clock: Clock | None = None) -> None:
        self._app = app
        self._clock = clock or SystemClock()
        self._requests = HostRequests()
        self._ended = threading.Event()
        self._thread = threading.get_ident()
        self._leaves = False
        self._host: Host | None = None
        #: The worker's state, in the words of Kafka Streams, and its tasks.
        self.state = "CREATED"
        self.tasks: tuple[str, ...] = ()
        #: Where metrics are served, while they are.
        self.metrics_url: str | None = None

    @property
    def process_id(self) -> str | None:
        """The instance's process id, once it is known."""
        return None if self._host is None else self._host.process_id

    def run(
        self,
        *,
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
        self._thread = threading.get_ident()
        results = RunResults(
            self._app.topology,
            keep=count is not None or timeout_ms is not None,
            after_commit=self._app.settings.exactly_once,
            wanted=count,
        )
        deadline = None if timeout_ms is None else self._clock.now_ms() + timeout_ms
        limits = [ms for ms in (wait_for_broker_ms, timeout_ms) if ms is not None]

        def wanted() -> bool:
            return (count is None or results.count < count) and (
                deadline is None or self._clock.now_ms() < deadline
            )

        try:
            with _signals(self._requests) as signals:
                self._host = Host(
                    self._app,
                    name or socket.gethostname(),
                    self._requests,
                    on_event=partial(self._take, results),
                    metrics=MetricsPlace(metrics_port, metrics_host, self._serving),
                    drains=signals is not None,
                    own_process=False,
                    limit_ms=min(limits, default=None),
                    limit_option="wait_for_broker or timeout of run()",
                    clock=self._clock,
                )
                work = partial(
                    self._host.work_here,
                    results.produced,
                    settled=results.settled,
                    wanted=wanted,
                    leaves=lambda: self._leaves,
                )
                self._host.run(work)
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
            log.log(level, "%s %s", self._app.name, results.explain())
        return found

    def _serving(self, url: str) -> None:
        self.metrics_url = url
        log.info("metrics on %s/metrics", url)

    def _take(self, results: RunResults, member: int, event: Event) -> None:
        if event["event"] == "state":
            self.state, self.tasks = event["state"], tuple(event["tasks"])
        results.take(member, event)

    def ask_to_stop(self, leave: bool = False) -> None:
        """Ask for a graceful stop; ``leave`` as of ``stop``. Also before it has begun."""
        self._leaves = leave
        self._requests.asked.set()

    def stop(self, leave: bool = False) -> None:
        """Ask for a graceful stop and, from another thread, wait until it is done.

        ``leave``: for good, so that a static id does not keep its tasks for a restart.
        """
        self.ask_to_stop(leave)
        if threading.get_ident() != self._thread:
            self._ended.wait()

    def drain(self, timeout_ms: int | None) -> None:
        """Have all tasks handed over and, from another thread, wait until the run has ended.

        Raises:
            TimedOutError: it has not in time; it goes on.
        """
        self._requests.drain.set()
        if threading.get_ident() == self._thread:
            return
        if not self._ended.wait(None if timeout_ms is None else timeout_ms / 1000):
            raise TimedOutError(f"not drained within {timeout_ms} ms; it goes on")


def _signals(requests: HostRequests) -> AbstractContextManager[GracefulStop | None]:
    """Ctrl-C once stops gracefully, twice at once; signals reach the main thread only."""
    if threading.current_thread() is threading.main_thread():
        return GracefulStop(drains=True, requests=requests)
    return nullcontext()
