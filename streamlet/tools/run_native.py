"""``streamlet run`` with streamlet's own engine: workers in processes, or one in this process."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from streamlet.tools.command import Common

if TYPE_CHECKING:
    from streamlet.admin.dead_members import DeadMembers
    from streamlet.app import App
    from streamlet.config import Settings
    from streamlet.hosting.broker_wait import BrokerWait
    from streamlet.hosting.fork_server import ForkServer
    from streamlet.hosting.signals import GracefulStop
    from streamlet.runtime.stream_thread import StreamThread
    from streamlet.state.directory import FolderLock
    from streamlet.tools.run_live import Measures
    from streamlet.tools.run_progress import RunProgress

#: How long the workers' graceful stop may take beside the three session time-outs that its last
#: commit, the delivery of that and leaving the group may take while the broker is away, ms.
STOP_MS = 90_000


def run_native(
    common: Common,
    orders: dict[str, Any],
    metrics: tuple[int | None, str],
    drain_on_sigterm: bool,
    limit_ms: int | None,
) -> None:
    """Run an instance to its end, and print the answer.

    Args:
        common: the options of every command.
        orders: the workers' first order: where the application is, its overrides, names, how many.
        metrics: port and host to serve metrics on.
        drain_on_sigterm: whether a first SIGTERM means what SIGUSR1 means.
        limit_ms: how long to wait for a broker at the start; None is as long as it takes.

    Raises:
        StreamletError: it cannot be started, or failed.
    """
    from streamlet.app import load_app
    from streamlet.hosting.broker_wait import BrokerWait
    from streamlet.hosting.fork_server import ForkServer
    from streamlet.hosting.preparing import check_supported
    from streamlet.hosting.signals import GracefulStop, let_through

    with (
        GracefulStop(drains=True, drain_on_sigterm=drain_on_sigterm) as stop,
        ForkServer("streamlet.hosting.process") if orders["members"] else nullcontext() as server,
    ):
        let_through()
        app = load_app(orders["app"])
        settings = common.load(app)
        check_supported(settings)
        app.topology(settings)  # one that cannot be is refused before anything is written
        waiting = BrokerWait(settings, stopped=partial(_stopped, stop), limit_ms=limit_ms)
        _run(common, app, settings, orders, metrics, drain_on_sigterm, stop, waiting, server)


def _stopped(stop: GracefulStop) -> bool:
    """True if a signal ends a start: there are no tasks yet that a drain could hand over."""
    return stop.asked.is_set() or stop.drain.is_set()


def _run(
    common: Common,
    app: App,
    settings: Settings,
    orders: dict[str, Any],
    metrics: tuple[int | None, str],
    drain_on_sigterm: bool,
    stop: GracefulStop,
    waiting: BrokerWait,
    server: ForkServer | None,
) -> None:
    from streamlet.hosting.broker_wait import StartStoppedError
    from streamlet.hosting.preparing import dead_members, forget_instance
    from streamlet.runtime.metrics.server import serving
    from streamlet.state.directory import StateDirectory
    from streamlet.state.instances import InstanceRecord
    from streamlet.tasks.background import lower_priority
    from streamlet.tools.run_live import LiveLine, Measures
    from streamlet.tools.run_progress import RunProgress

    process_id, lock = StateDirectory(settings.state_dir, app.name).lock_instance()
    port, host = metrics
    served = serving(
        app.name,
        orders["name"],
        orders["members"],
        settings,
        port,
        host=host,
        told=lambda url: common.output.note(f"metrics on {url}/metrics"),
    )
    with lock, served as exposition:
        record = InstanceRecord(lock, orders["name"])
        progress = RunProgress(common.output, app.name, orders["name"], record.say)
        measures = Measures(exposition, LiveLine(common.output, orders["name"]))
        orders["process_id"] = process_id
        ended = "failed"
        try:
            record.say(drains=1)
            waiting.until_done(partial(_prepare, app, settings, process_id, lock, orders))
            if server is not None:
                code = _supervise(
                    server,
                    orders,
                    progress,
                    measures,
                    drain_on_sigterm,
                    stop,
                    STOP_MS + 3 * settings.session_timeout_ms,
                    dead_members(app.name, settings),
                )
            else:
                code = _run_here(app, settings, orders, progress, measures, stop, waiting)
            if progress.drained:
                lower_priority(of_all=True)  # others may still be at their hand-overs
                forget_instance(app.name, settings, process_id)
            ended = "failed" if code else "drained" if progress.drained else "stopped"
        except StartStoppedError:
            code, ended = 0, "stopped"
        finally:
            record.say(drains=0, tasks=0, ended=ended)
    progress.ended(code)
    if code:
        raise typer.Exit(code)


def _prepare(
    app: App, settings: Settings, process_id: str, lock: FolderLock, orders: dict[str, Any]
) -> None:
    """Check and make what the instance needs on the broker; may be repeated."""
    from streamlet.hosting.preparing import check_topics, clear_left_over, prepare_instance

    topology = app.topology(settings)

    def prepare() -> None:
        clear_left_over(topology, settings, process_id, lock, max(orders["members"], 1))
        prepare_instance(topology, settings, process_id, lock)

    orders["counts"] = check_topics(topology, settings, prepare)


def _supervise(
    server: ForkServer,
    orders: dict[str, Any],
    progress: RunProgress,
    measures: Measures,
    drain_on_sigterm: bool,
    stop: GracefulStop,
    stop_ms: int,
    dead_members: DeadMembers | None,
) -> int:
    import logging

    from streamlet.clock import SystemClock
    from streamlet.hosting.log import is_json
    from streamlet.hosting.supervisor import Supervisor

    orders["log_level"] = logging.getLevelName(logging.getLogger().level).lower()
    orders["log_json"] = is_json()
    orders["path"] = [entry for entry in sys.path if entry]
    orders["measures"] = measures.wanted
    orders["endpoint"] = measures.endpoint

    def on_event(member: int, event: dict[str, Any]) -> None:
        if not measures.event(member, event):
            progress.event(member, event)

    clock = SystemClock()
    instance = Supervisor(
        server.launch,
        orders,
        orders["members"],
        clock=clock,
        on_event=on_event,
        stop_timeout_ms=stop_ms,
        drain_on_sigterm=drain_on_sigterm,
        earlier=stop,
        dead_members=dead_members,
    )
    return instance.run()


def _run_here(
    app: App,
    settings: Settings,
    orders: dict[str, Any],
    progress: RunProgress,
    measures: Measures,
    stop: GracefulStop,
    waiting: BrokerWait,
) -> int:

    from streamlet.clock import SystemClock
    from streamlet.hosting.assembly import open_worker
    from streamlet.hosting.restarts import run_replaced
    from streamlet.hosting.worker_events import ended_event, leaving_event
    from streamlet.runtime.worker_group import MemberIdentity
    from streamlet.tasks.background import lower_priority

    member = MemberIdentity(orders["process_id"], orders["name"])
    clock = SystemClock()
    opened = partial(
        open_worker,
        app.topology(settings),
        settings,
        member,
        assignor=app.assignor,
        policy=app.policy,
        observer=app.listeners.around(progress.observer()),
        measured=partial(measures.take, 0) if measures.wanted else None,
        endpoint=measures.endpoint,
        on_leaving=lambda leaving: progress.event(0, leaving_event(leaving)),
        on_drained=partial(lower_priority, of_all=True),
    )

    def run(worker: StreamThread) -> None:
        def keep_going() -> bool:
            if stop.drain.is_set():
                stop.drain.clear()
                worker.drain(clock.wall_ms())
            return not stop.asked.is_set()

        try:
            worker.run(keep_going)
        finally:
            answer = worker.uncaught.answer
            progress.event(0, ended_event(worker.counters, worker.drained, answer))

    once_more = partial(waiting.until_done, opened)
    run_replaced(once_more, run, clock=clock, stopped=partial(_stopped, stop))
    return 0
