"""Reports a worker's loop that stands still, while it does: in which task, function and line.

The loop cannot say so itself, and the membership only knows that it left the group. A thread of its
own looks at the loop's stack, so that the loop pays no more than a note of the time once a round.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType

from streamlet.batch import Batch
from streamlet.clock import Clock
from streamlet.logs import get_logger
from streamlet.processing.task import Task
from streamlet.topology.nodes import ProcessorNode, SinkNode, SourceNode
from streamlet.user_code import Place, users_line

log = get_logger(__name__)

#: Shortest pause between two looks, ms.
LEAST_MS = 10
#: The longest time between two looks: a thread waits for no thousand years.
MOST_MS = 3_600_000


class Watchdog:
    """Watches the thread that starts it.

    Args:
        clock: the time.
        limit_ms: ``max.poll.interval.ms``; reported is what takes as long, then twice as long, and
            so on.
    """

    def __init__(self, clock: Clock, limit_ms: int) -> None:
        self._clock = clock
        self._limit_ms = self._due_ms = limit_ms
        self._beat_ms = clock.now_ms()
        self._watched = threading.get_ident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streamlet-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch the calling thread."""
        self._watched = threading.get_ident()
        self.beat()
        self._thread.start()

    def beat(self) -> None:
        """Note that the loop goes round; on its own thread."""
        now_ms = self._clock.now_ms()
        if self._due_ms != self._limit_ms:
            self._due_ms = self._limit_ms
            log.warning("the worker goes on, after %.0f s", (now_ms - self._beat_ms) / 1000)
        self._beat_ms = now_ms

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> int:
        """Report the loop if that is due; the time until the next look, ms."""
        blocked_ms = self._clock.now_ms() - self._beat_ms
        if blocked_ms >= self._due_ms:
            self._due_ms = 2 * blocked_ms
            frame = sys._current_frames().get(self._watched)
            if frame is not None:
                self._report(blocked_ms, stack(frame))
        return min(max(self._due_ms - blocked_ms, LEAST_MS), MOST_MS)

    def _run(self) -> None:
        while not self._ended.wait(self.look() / 1000):
            pass

    def _report(self, blocked_ms: int, frames: list[FrameType]) -> None:
        log.warning(
            "the worker stands still for %.1f s, longer than max.poll.interval.ms = %d: %s. Its "
            "member is out of the group until it goes on; make the function shorter or the setting "
            "longer",
            blocked_ms / 1000,
            self._limit_ms,
            described(frames),
        )


def stack(frame: FrameType) -> list[FrameType]:
    """A thread's frames, the outermost call first."""
    frames = []
    inner: FrameType | None = frame
    while inner is not None:
        frames.append(inner)
        inner = inner.f_back
    return frames[::-1]


def described(frames: list[FrameType]) -> str:
    """Describe what a worker's thread does: the line first, then task, operator and records."""
    first = next((n for n, frame in enumerate(frames) if _task_of(frame) is not None), 0)
    inside = frames[first:]
    steps = [(frame.f_code, frame.f_lineno) for frame in inside]
    own = users_line(steps) if _task_of(inside[0]) is not None else None
    code, line = steps[-1]
    parts = [str(own or Place(code.co_filename, line, code.co_name))]
    task, operator, records = _task_of(inside[0]), "", ""
    for frame in inside:
        for value in list(frame.f_locals.values()):
            if isinstance(value, ProcessorNode | SinkNode | SourceNode):
                operator = f"operator {value.name}"
            elif isinstance(value, Batch) and len(value):
                where = f"{value.topic}-{value.partition}"
                records = f"records of {where}, offsets {value.offsets[0]} to {value.offsets[-1]}"
    if task is not None:
        parts += [f"task {task.task}", operator, records]
    return ", ".join(part for part in parts if part)


def _task_of(frame: FrameType) -> Task | None:
    """The task whose method a frame runs."""
    owner = frame.f_locals.get("self")
    return owner if isinstance(owner, Task) else None
