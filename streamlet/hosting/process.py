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
import signal
import sys
import threading
import traceback
from functools import partial
from typing import Any

from streamlet.app import App, hosted, load_app
from streamlet.clock import SystemClock
from streamlet.config import Settings
from streamlet.errors import StreamletError
from streamlet.forks import OwnDescriptor
from streamlet.hosting.assembly import open_worker
from streamlet.hosting.broker_wait import BrokerWait, StartStoppedError
from streamlet.hosting.host import run_worker
from streamlet.hosting.log import set_up_logging
from streamlet.hosting.requests import HostRequests
from streamlet.hosting.worker_events import Event, WorkerEvents
from streamlet.kafka.outage_lines import outage_lines
from streamlet.logs import get_logger
from streamlet.runtime.worker_group import MemberIdentity
from streamlet.tasks.background import lower_priority
from streamlet.user_code import text_of

log = get_logger(__name__)


#: How long a thread keeps the interpreter when another wants it, s; Python's own 5 ms would be
#: added to each hand of a hand-over, which goes through four threads, while one of them is busy.
SWITCH_S = 0.001


class EventPipe:
    """The pipe on which the supervisor reads what the worker does."""

    def __init__(self, fd: int) -> None:
        self._pipe = OwnDescriptor(fd)
        self._one_at_a_time = threading.Lock()

    def tell(self, event: Event) -> None:
        """Write one event, from any thread; a supervisor that is gone is noticed by its orders."""
        left = json.dumps(event).encode() + b"\n"
        try:
            with self._one_at_a_time:  # a pipe takes long events in pieces
                while left:  # a signal may cut a long write short
                    left = left[os.write(self._pipe.fd, left) :]
        except BrokenPipeError:
            log.debug("the supervisor reads no events any more")


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
        self.requests = HostRequests()
        #: Whether it does not come back once it has stopped.
        self.leaves = False
        threading.Thread(target=self._listen, name="streamlet-orders", daemon=True).start()

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
                self.leaves = order.get("leave", False)
                break
            if "drain" in order:
                self.requests.since_ms = order["drain"]
                self.requests.drain.set()
        self.requests.asked.set()


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
    outage_lines.watch(True)  # its worker tells of outages, until the process ends
    sys.setswitchinterval(SWITCH_S)
    pipe = EventPipe(events_fd)
    pipe.tell({"event": "began"})
    try:
        _work(orders, pipe)
    except StartStoppedError:
        log.debug("stopped at the start")
    except Exception as error:
        # The supervisor says it, with our name; once is enough.
        log.debug("the worker failed", exc_info=True)
        first = _first(error)
        pipe.tell(
            {
                "event": "failed",
                "error": type(first).__name__,
                "message": str(first),
                "passing": first is error and first.passing,
                "final": first.final,
                "exit_code": first.exit_code,
            }
        )
        return first.exit_code
    pipe.tell({"event": "finished"})
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


def _work(orders: SupervisorOrders, pipe: EventPipe) -> None:
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
    events = WorkerEvents(pipe.tell)
    opened = partial(
        open_worker,
        hosted(app, settings),
        member,
        events,
        measured=events.measured if first.get("measures") else None,
        endpoint=tuple(first["endpoint"]) if first.get("endpoint") else None,
        on_leaving=events.leaving,
        known_counts=first.get("counts"),
        leaves=lambda: orders.leaves,
        on_member_id=events.member_changed,
        on_drained=partial(lower_priority, of_all=True),
    )
    worker = BrokerWait(settings, stopped=orders.requests.end_a_start).until_done(opened)
    try:
        run_worker(worker, events, orders.requests, SystemClock())
    finally:
        gc.freeze()  # else Python looks through all that was cached while it ends, for nothing
