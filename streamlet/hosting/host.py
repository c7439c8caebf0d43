"""An instance of an application on this machine, from its start to its end.

Its workers are processes under a supervisor, or one worker in the calling process: ``App.run`` and
``streamlet run`` differ in that, and in what they do with what workers report.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs

from streamlet.bounded import NAME_MAX
from streamlet.clock import Clock, SystemClock
from streamlet.errors import ConfigError
from streamlet.hosting import worker_count
from streamlet.hosting.assembly import open_worker
from streamlet.hosting.broker_wait import BrokerWait, StartStoppedError
from streamlet.hosting.fork_server import ForkServer
from streamlet.hosting.hosted import HostedApp
from streamlet.hosting.log import is_json
from streamlet.hosting.preparing import (
    check_supported,
    check_topics,
    clear_left_over,
    dead_members,
    forget_instance,
    prepare_instance,
)
from streamlet.hosting.requests import HostRequests
from streamlet.hosting.restarts import run_replaced
from streamlet.hosting.supervisor import Supervisor
from streamlet.hosting.worker_events import Event, WorkerEvents
from streamlet.kafka.outage_lines import outage_lines
from streamlet.processing.outputs import Output
from streamlet.runtime.metrics.exposition import Exposition
from streamlet.runtime.metrics.server import LOCAL_HOST, serving
from streamlet.runtime.metrics.values import Snapshot
from streamlet.runtime.stream_thread import StreamThread
from streamlet.runtime.worker_group import MemberIdentity
from streamlet.state.directory import FolderLock, StateDirectory
from streamlet.state.instances import InstanceRecord
from streamlet.tasks.background import lower_priority
from streamlet.user_code import printable, shown

#: How long the workers' graceful stop may take beside the three session time-outs that its last
#: commit, the delivery of that and leaving the group may take while the broker is away, ms.
STOP_MS = 90_000


@attrs.frozen
class MetricsPlace:
    """Host and port of an instance's metrics.

    Attributes:
        port: None: no metrics are served.
        host: the interface.
        on_served: gets the URL once they are served.
    """

    port: int | None = None
    host: str = LOCAL_HOST
    on_served: Callable[[str], None] = lambda url: None


def _check_name(name: str) -> None:
    """Refuse a name that would be too long in all that an instance says of itself, or no text."""
    if len(name) > NAME_MAX or printable(name) != name:
        raise ConfigError(
            [f"the instance's name {shown(name)}: expected text of at most {NAME_MAX} characters"]
        )


@attrs.define
class _Worker:
    tasks: int = 0
    drained: bool = False


@attrs.define(eq=False)
class Host:
    """Prepares an instance, has its workers run, and notes in its folder how it is.

    Args:
        app: the application to run.
        name: the instance's name for people.
        requests: to stop, and to leave.
        members: how many worker processes; 0: one worker, in this process.
        on_event: gets ``(member, event)`` of each event of a worker.
        measures: whether workers are to measure, also where no metrics are served.
        metrics: where to serve metrics.
        drains: whether SIGUSR1 has the instance leave.
        own_process: whether the process ends with the instance.
        limit_ms: how long to wait for a broker at the start; None is as long as it takes.
        limit_option: what the limit is called where it was given.
        clock: the time.
    """

    app: HostedApp
    name: str
    requests: HostRequests
    members: int = 0
    on_event: Callable[[int, Event], None] = lambda member, event: None
    measures: bool = False
    metrics: MetricsPlace = attrs.field(factory=MetricsPlace)
    drains: bool = True
    own_process: bool = True
    limit_ms: int | None = None
    limit_option: str = "--wait-for-broker"
    clock: Clock = attrs.field(factory=SystemClock)
    #: The instance's process id, once it is known.
    process_id: str | None = attrs.field(default=None, init=False)
    _waiting: BrokerWait = attrs.field(init=False)
    _exposition: Exposition | None = attrs.field(default=None, init=False)
    _counts: dict[str, int] = attrs.field(factory=dict, init=False)
    _workers: dict[int, _Worker] = attrs.field(factory=dict, init=False)
    _record: InstanceRecord = attrs.field(init=False)
    _folder: Path = attrs.field(init=False)

    @property
    def drained(self) -> bool:
        """True if all workers ended because everything they had was handed over."""
        return bool(self._workers) and all(one.drained for one in self._workers.values())

    def run(self, work: Callable[[], int]) -> int:
        """Prepare the instance and have it work; the exit code.

        Args:
            work: ``work_here``, or ``supervise`` with its arguments.

        Raises:
            StreamletError: it cannot be started, or failed.
            TimedOutError: no broker answered in time.
        """
        settings = self.app.settings
        _check_name(self.name)
        check_supported(settings)
        directory = StateDirectory(settings.state_dir, self.app.name)
        self.process_id, lock = directory.lock_instance()
        served = serving(
            *(self.app.name, self.name, self.members or 1, settings, self.metrics.port),
            host=self.metrics.host,
            on_served=self.metrics.on_served,
        )
        with lock, served as self._exposition:
            self._record, self._folder = InstanceRecord(lock, self.name), lock.folder
            code, ended = 0, "failed"
            outage_lines.watch(True)
            try:
                self._record.say(drains=int(self.drains))
                self._waiting = BrokerWait(
                    settings,
                    stopped=self.requests.end_a_start,
                    limit_ms=self.limit_ms,
                    clock=self.clock,
                    option=self.limit_option,
                )
                self._counts = self._waiting.until_done(partial(self._prepare, lock))
                code = work()
                ended = "failed" if code else self._left() if self.drained else "stopped"
            except StartStoppedError:
                ended = "stopped"
            finally:
                outage_lines.watch(False)
                self._record.say(drains=0, workers=0, tasks=0, ended=ended)
        return code

    def work_here(
        self,
        produced: Callable[[list[Output]], None] = lambda outputs: None,
        *,
        settled: Callable[[bool], None] = lambda counts: None,
        wanted: Callable[[], bool] = lambda: True,
        leaves: Callable[[], bool] = lambda: False,
    ) -> int:
        """Run one worker in this process, replaced as often as ``uncaught_handler`` wants; 0.

        Args:
            produced: gets the outputs that were handed to the producer.
            settled: as of ``Observer``.
            wanted: whether to go on; asked once a round.
            leaves: as of ``Worker``.
        """
        events = WorkerEvents(partial(self.take, 0), produced, settled)
        opened = partial(
            open_worker,
            self.app,
            MemberIdentity(self._id, self.name),
            events,
            measured=events.measured if self._measured else None,
            endpoint=self._endpoint,
            clock=self.clock,
            on_leaving=events.leaving,
            known_counts=self._counts,
            leaves=leaves,
            on_drained=self._give_way,
        )
        run_replaced(
            partial(self._waiting.until_done, opened),
            partial(
                run_worker, events=events, requests=self.requests, clock=self.clock, wanted=wanted
            ),
            clock=self.clock,
            stopped=lambda: self.requests.end_a_start() or not wanted(),
        )
        return 0

    def supervise(
        self, server: ForkServer, orders: Event, *, drain_on_sigterm: bool = False
    ) -> int:
        """Run workers in processes; the exit code.

        Args:
            server: forks them.
            orders: their first order: where the application is, its overrides, names, how many.
            drain_on_sigterm: whether a first SIGTERM means what SIGUSR1 means.
        """
        settings = self.app.settings
        more = {
            "process_id": self._id,
            "counts": self._counts,
            "measures": self._measured,
            "endpoint": self._endpoint,
            "log_level": logging.getLevelName(logging.getLogger().level).lower(),
            "log_json": is_json(),
            "path": [entry for entry in sys.path if entry],
        }
        supervisor = Supervisor(
            server.launch,
            {**orders, **more},
            self.members,
            clock=self.clock,
            on_event=self.take,
            stop_timeout_ms=STOP_MS + 3 * settings.session_timeout_ms,
            drain_on_sigterm=drain_on_sigterm,
            earlier=self.requests,
            dead_members=dead_members(self.app.name, settings),
            wanted=partial(worker_count.wanted, self._folder),
            on_count=lambda count: self._record.say(workers=count),
        )
        worker_count.forget(self._folder)
        self._record.say(workers=self.members)
        return supervisor.run()

    def take(self, member: int, event: Event) -> None:
        """Note an event of a worker, and pass it on."""
        one = self._workers.setdefault(member, _Worker())
        match event["event"]:
            case "removed":
                del self._workers[member]
                if self._exposition is not None:
                    self._exposition.removed(member)
            case "measured" if self._exposition is not None:
                self._exposition.take(member, Snapshot.from_event(event))
            case "exited" if self._exposition is not None:
                self._exposition.ended(member, failed=event["exit_code"] != 0)
            case "state":
                one.tasks = len(event["tasks"])
            case "ended":
                one.tasks, one.drained = 0, event["drained"]
            case "leaving":
                self._record.say(leaving_since_ms=event["since_ms"])
            case "staying":
                self._record.say(leaving_since_ms=0)
            case _:
                pass
        self._record.say(tasks=sum(one.tasks for one in self._workers.values()))
        self.on_event(member, event)

    def _prepare(self, lock: FolderLock) -> dict[str, int]:
        """Check and make what the instance needs on the broker; may be repeated."""
        app, process_id = self.app, self._id

        def prepare() -> None:
            clear_left_over(app.topology, app.settings, process_id, lock, self.members or 1)
            prepare_instance(app.topology, app.settings, process_id, lock, self.clock)

        return check_topics(app.topology, app.settings, prepare)

    def _left(self) -> str:
        """Forget an instance that has handed everything over."""
        self._give_way()
        forget_instance(self.app.name, self.app.settings, self._id)
        return "drained"

    def _give_way(self) -> None:
        """Lower the priority of an end: others may still be at their hand-overs."""
        if self.own_process:
            lower_priority(of_all=True)

    @property
    def _id(self) -> str:
        assert self.process_id is not None
        return self.process_id

    @property
    def _measured(self) -> bool:
        return self.measures or self._exposition is not None

    @property
    def _endpoint(self) -> tuple[str, int] | None:
        return None if self._exposition is None else self._exposition.address


def run_worker(
    worker: StreamThread,
    events: WorkerEvents,
    requests: HostRequests,
    clock: Clock,
    wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Run a worker until it is to stop, or has ended, and tell how it ended."""
    try:
        worker.run(lambda: requests.obey(worker, clock) and wanted())
    finally:
        events.ended(worker)
