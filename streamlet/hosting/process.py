"""The program of a worker process, as the supervisor's fork server starts it.

Orders come on a pipe, a JSON object a line; its end means that the supervisor is gone. Events go to
another, so that standard input and output stay the user's. The thread that waits for orders reads
the descriptor: a lock of ``sys.stdin`` that it held would be held for ever in a forked child, which
multiprocessing has close its ``sys.stdin``. The first event is ``began``, before any module of the
user's is loaded. The last is ``finished``, or ``failed`` with an exit code: the code of the process
may be user code's.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import signal
import sys
import threading
import traceback
from functools import partial
from typing import Any

from streamlet.app import App, load_app
from streamlet.config import Settings
from streamlet.errors import StreamletError
from streamlet.forks import OwnDescriptor
from streamlet.hosting.assembly import open_worker
from streamlet.hosting.broker_wait import BrokerWait, StartStoppedError
from streamlet.hosting.log import set_up_logging
from streamlet.hosting.worker_events import ended_event, leaving_event, restoring_event
from streamlet.logs import get_logger
from streamlet.processing.outputs import Output
from streamlet.runtime.metrics.values import Snapshot
from streamlet.runtime.worker_group import MemberIdentity
from streamlet.tasks.background import lower_priority
from streamlet.tasks.restore_job import RestoreProgress
from streamlet.types import TaskId
from streamlet.user_code import text_of

log = get_logger(__name__)


#: How long a thread keeps the interpreter when another wants it, s; Python's own 5 ms would be
#: added to each hand of a hand-over, which goes through four threads, while one of them is busy.
SWITCH_S = 0.001


class PipeObserver:
    """Tells the supervisor what the worker does."""

    def __init__(self, fd: int) -> None:
        self._pipe = OwnDescriptor(fd)
        self._one_at_a_time = threading.Lock()

    def tell(self, **event: Any) -> None:
        """Write one event, from any thread; a supervisor that is gone is noticed by its orders."""
        left = json.dumps(event).encode() + b"\n"
        try:
            with self._one_at_a_time:  # a pipe takes long events in pieces
                while left:  # a signal may cut a long write short
                    left = left[os.write(self._pipe.fd, left) :]
        except BrokenPipeError:
            log.debug("the supervisor reads no events any more")

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        """The worker's state or tasks changed."""
        self.tell(event="state", state=state, tasks=[str(task) for task in tasks])

    def member_changed(self, member_id: str) -> None:
        """The group knows the worker by this member id from now on; empty: by none."""
        self.tell(event="member", member_id=member_id)

    def restoring(self, progress: RestoreProgress) -> None:
        """A store is being restored."""
        self.tell(**restoring_event(progress))

    def produced(self, outputs: list[Output]) -> None:
        """Ignore outputs: the supervisor does not need them."""

    def measured(self, snapshot: Snapshot) -> None:
        """This is what the worker is like now."""
        self.tell(**snapshot.to_event())


class SupervisorOrders:
    """Reads the supervisor's orders: the first says what to run, later ones to leave or to stop.

    Args:
        fd: the read end of their pipe.
    """

    def __init__(self, fd: int = 0) -> None:
        self._pipe = OwnDescriptor(fd)
        self._unread = b""
        line = self._line()
        self.first: dict[str, Any] = json.loads(line) if line else {}
        self._stop = threading.Event()
        #: Since when to leave, for the worker's thread to take.
        self.drains: queue.SimpleQueue[int] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="streamlet-orders", daemon=True).start()

    def keep_going(self) -> bool:
        """True as long as no order to stop has come."""
        return not self._stop.is_set()

    def end_a_start(self) -> bool:
        """True if the start is to end before there is a worker: there is nothing to hand over."""
        return self._stop.is_set() or not self.drains.empty()

    def _line(self) -> bytes:
        """The next order; empty at the end."""
        while b"\n" not in self._unread:
            chunk = os.read(self._pipe.fd, 65_536)
            if not chunk:
                return b""
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _listen(self) -> None:
        while line := self._line():
            order = json.loads(line)
            if "stop" in order:
                break
            if "drain" in order:
                self.drains.put(order["drain"])
        self._stop.set()


def settings_of(app: App, orders: dict[str, Any]) -> Settings:
    """The application's settings with those that the command line was given over them."""
    return app.load_settings(environ=os.environ, overrides=orders["overrides"])


def main(events_fd: int, orders_fd: int = 0) -> int:
    """Run one worker to its end; the exit code. Both are file descriptors of pipes."""
    # We are not in the terminal's foreground; one may be set to stop who writes to it all the same.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    orders = SupervisorOrders(orders_fd)
    if not orders.first:
        return 0  # the supervisor died before it said anything
    set_up_logging(orders.first["log_level"], orders.first["log_json"])
    sys.setswitchinterval(SWITCH_S)
    observer = PipeObserver(events_fd)
    observer.tell(event="began")
    try:
        _work(orders, observer)
    except StartStoppedError:
        log.debug("stopped at the start")
    except Exception as error:
        # The supervisor says it, with our name; once is enough.
        log.debug("the worker failed", exc_info=True)
        first = _first(error)
        observer.tell(
            event="failed",
            error=type(first).__name__,
            message=str(first),
            passing=first is error and first.passing,
            final=first.final,
            exit_code=first.exit_code,
        )
        return first.exit_code
    observer.tell(event="finished")
    return 0


def _first(error: Exception) -> StreamletError:
    """The error that ended the worker, not those that followed while it closed its stores.

    An exception that is none of ours is a fault of ours; its traceback is in the debug log.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, StreamletError):
            return cause
        cause = cause.__context__
    step = traceback.extract_tb(error.__traceback__)[-1]
    return StreamletError(
        f"{type(error).__name__}: {text_of(error)}, {step.filename}:{step.lineno} in {step.name}; "
        "this should not happen, please report it with the traceback that --log-level debug shows"
    )


def _work(orders: SupervisorOrders, observer: PipeObserver) -> None:
    first = orders.first
    sys.path[:0] = [entry for entry in first["path"] if entry not in sys.path]
    app = load_app(first["app"])
    settings = settings_of(app, first)
    member = MemberIdentity(
        instance=first["process_id"],
        name=first["name"],
        number=first["member"],
        members=first["members"],
    )
    opened = partial(
        open_worker,
        app.topology(settings),
        settings,
        member,
        assignor=app.assignor,
        policy=app.policy,
        observer=app.listeners.around(observer),
        measured=observer.measured if first.get("measures") else None,
        endpoint=tuple(first["endpoint"]) if first.get("endpoint") else None,
        on_leaving=lambda leaving: observer.tell(**leaving_event(leaving)),
        known_counts=first.get("counts"),
        on_member_id=observer.member_changed,
        on_drained=partial(lower_priority, of_all=True),
    )
    worker = BrokerWait(settings, stopped=orders.end_a_start).until_done(opened)

    def keep_going() -> bool:
        while not orders.drains.empty():
            worker.drain(orders.drains.get())
        return orders.keep_going()

    try:
        worker.run(keep_going)
    finally:
        observer.tell(**ended_event(worker.counters, worker.drained, worker.uncaught.answer))
        gc.freeze()  # else Python looks through all that was cached while it ends, for nothing
