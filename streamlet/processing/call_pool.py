"""Calls of users' async functions, on an event loop that has a thread of its own.

A process has one such loop. A function that blocks holds up other calls there, and never the loop
of a worker: tasks hand calls over, and look later for those that have ended.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from functools import partial
from typing import Any

import attrs

from streamlet.errors import error_text
from streamlet.kafka.ports import Headers
from streamlet.lazy_results import EXITED, FINE, refuse_promise
from streamlet.logs import get_logger
from streamlet.serdes.copies import own

log = get_logger(__name__)

#: How long a function that was cancelled at its timeout may take to end.
_GRACE_MS = 1_000


@attrs.define(eq=False)
class Call:
    """One record that a function is called for.

    Calls of one ``lane`` run one after another; those without one run at any time. ``attempt`` is
    the number of the call, 1 for the first. ``ended``: its result, or its error, is final.
    """

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    timestamp: int
    headers: Headers | None
    lane: Hashable | None = None
    attempt: int = 1
    result: Any = None
    error: BaseException | None = None
    ended: bool = False


class CallLoop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps none alive
        #: Set when calls have ended that a worker should look at.
        self.news = threading.Event()
        threading.Thread(target=self._run, name="streamlet-calls", daemon=True).start()

    def _run(self) -> None:
        """Run the loop for good, also where a user's function stops it or a task of its exits."""
        while not self._loop.is_closed():
            try:
                self._loop.run_forever()
            except BaseException as error:  # of a task that a function began and does not await
                log.warning("a task that a function began ended with %s", error_text(error))

    def run(self, step: Callable[..., object], *arguments: Any) -> None:
        """Have the loop take a step soon; from any thread."""
        self._loop.call_soon_threadsafe(step, *arguments)

    def later(
        self, pause_ms: float, step: Callable[..., object], *arguments: Any
    ) -> asyncio.TimerHandle:
        """Run a step after a pause, on the loop's thread."""
        return self._loop.call_later(pause_ms / 1000, step, *arguments)

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine; on the loop's thread."""
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def wait(self, timeout_ms: int) -> None:
        """Wait until a call ends, or for the given time."""
        self.news.wait(timeout_ms / 1000)
        self.news.clear()


#: By process id: a forked process has the object of its parent, but not the thread.
_LOOPS: dict[int, CallLoop] = {}
_STARTING = threading.Lock()


def call_loop() -> CallLoop:
    """The loop of this process, which starts when it is first asked for."""
    with _STARTING:
        found = _LOOPS.get(os.getpid())
        if found is None:
            found = _LOOPS[os.getpid()] = CallLoop()
        return found


def _is_running() -> bool:
    """False where a coroutine is closed because it is not run any more."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class CallPool:
    """The calls of one operator of one task.

    Args:
        function: ``(key, value)``, whose awaitable has the result.
        most: how many calls run at a time.
        timeout_ms: how long a call may take; None: as long as it likes.
        news: set when calls have ended that the task should look at.
    """

    def __init__(
        self,
        function: Callable[[Any, Any], Awaitable[Any]],
        most: int,
        timeout_ms: int | None,
        news: threading.Event,
    ) -> None:
        self._function, self._most, self._news = function, most, news
        self._timeout_s = None if timeout_ms is None else timeout_ms / 1000
        self._loop = call_loop()
        #: Calls that have ended, for the task to take.
        self.ended: deque[Call] = deque()
        # The rest is of the loop's thread.
        self._waiting: deque[Call] = deque()
        self._lanes: dict[Hashable, deque[Call]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    # For the task's thread.

    def start(self, calls: list[Call]) -> None:
        """Run these, in this order as far as they wait for each other."""
        self._loop.run(self._add, calls)

    def again(self, call: Call, pause_ms: int) -> None:
        """Run a call that failed again, after a pause; its lane waits."""
        call.attempt += 1
        call.error, call.ended = None, False
        self._loop.run(self._loop.later, pause_ms, self._put_first, call)

    def give_up(self, call: Call) -> None:
        """Let the lane of a call that failed go on without it."""
        if call.lane is not None:
            self._loop.run(self._next, call.lane)

    def close(self) -> None:
        """Cancel all calls; none ends afterwards."""
        self._loop.run(self._cancel)

    # On the loop's thread.

    def _add(self, calls: list[Call]) -> None:
        lanes = self._lanes
        for call in calls:
            if call.lane in lanes:
                lanes[call.lane].append(call)
                continue
            if call.lane is not None:
                lanes[call.lane] = deque()
            self._waiting.append(call)
        self._fill()

    def _put_first(self, call: Call) -> None:
        self._waiting.appendleft(call)
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._most and not self._closed:
            call = self._waiting.popleft()
            task = self._loop.start(self._run(call))
            self._running.add(task)
            task.add_done_callback(partial(self._cut_short, call))

    def _cut_short(self, call: Call, task: asyncio.Task[None]) -> None:
        """End a call whose task was cancelled before it began."""
        self._end(task, call, None, asyncio.CancelledError("cancelled before it began"))

    async def _run(self, call: Call) -> None:
        running = asyncio.current_task()
        assert running is not None
        late = self._left_later(running, call)
        result: Any = None
        failed: BaseException | None = None
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                # Each try begins with the record as it was read; a result may be kept elsewhere.
                result = await self._function(own(call.key), own(call.value))
            if type(result) not in FINE:
                refuse_promise(result)
            result = own(result)
        except GeneratorExit as error:
            if not _is_running():  # the process ends
                raise
            failed = RuntimeError(EXITED)
            failed.__cause__ = error
        except BaseException as error:  # it may raise anything, or exit; the policy decides
            failed = error
        if limit.expired() and isinstance(failed, TimeoutError):
            failed = TimeoutError(f"no answer within timeout={self._timeout_s} s")
        if late is not None:
            late.cancel()
        self._end(running, call, result, failed)

    def _left_later(self, running: asyncio.Task[None], call: Call) -> asyncio.TimerHandle | None:
        """Leave a call behind its timeout whose function does not end when it is cancelled."""
        if self._timeout_s is None:
            return None
        error = TimeoutError("it was cancelled at its timeout, and goes on all the same")
        after_ms = self._timeout_s * 1000 + _GRACE_MS
        return self._loop.later(after_ms, self._end, running, call, None, error)

    def _end(
        self, running: asyncio.Task[None], call: Call, result: Any, error: BaseException | None
    ) -> None:
        """Take the result of a call, or its error; nothing if the call was left before."""
        if running not in self._running:
            return
        self._running.discard(running)
        if self._closed:
            return
        call.result, call.error = result, error
        self.ended.append(call)
        if call.error is None and call.lane is not None:
            self._next(call.lane)
        else:
            self._fill()
        # A quarter of them at once, or what there is: each look costs the worker a round.
        if not self._running or len(self.ended) * 4 >= self._most:
            self._news.set()
            self._loop.news.set()

    def _next(self, lane: Hashable) -> None:
        """Run the next call of a lane, or forget the lane."""
        behind = self._lanes[lane]
        if behind:
            self._waiting.append(behind.popleft())
        else:
            del self._lanes[lane]
        self._fill()

    def _cancel(self) -> None:
        self._closed = True
        self._waiting.clear()
        self._lanes.clear()
        for one in self._running:
            one.cancel()
