"""Async functions whose calls end when a test says so, and tasks that call them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import streamlet as sl
from streamlet.dsl.stream import KStream
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.state.task_state import TaskState
from streamlet.types import TaskId, TopicPartition
from tests.unit.runtime.members import wait_for

IN = TopicPartition("in", 0)


class Answers:
    """An async function of ``(value)``; a call waits for ``give``, or for ``fail``."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Future[str]]] = {}
        self._changed = threading.Condition()
        #: The values of all calls so far, in order, and those of calls that were cancelled.
        self.calls: list[str] = []
        self.cancelled: list[str] = []

    async def __call__(self, value: str) -> str:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        with self._changed:
            self._open[value] = loop, answer
            self.calls.append(value)
            self._changed.notify_all()
        try:
            return await answer
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise

    @property
    def waiting(self) -> list[str]:
        """The values whose calls wait for an answer."""
        return list(self._open)

    def give(self, *values: str) -> None:
        """Have the calls for these values return them in capitals, once they are made."""
        for value in values:
            loop, answer = self._taken(value)
            loop.call_soon_threadsafe(answer.set_result, value.upper())

    def fail(self, value: str, error: Exception | None = None) -> None:
        """Have the call for this value fail, once it is made."""
        loop, answer = self._taken(value)
        loop.call_soon_threadsafe(answer.set_exception, error or ConnectionError(value))

    def await_calls(self, *values: str) -> None:
        """Wait until just these calls wait for an answer."""
        wait_for(lambda: sorted(self.waiting) == sorted(values), f"calls {values}, {self._open}")

    def _taken(self, value: str) -> tuple[asyncio.AbstractEventLoop, asyncio.Future[str]]:
        with self._changed:
            assert self._changed.wait_for(lambda: value in self._open, 30), value
            return self._open.pop(value)


def calling(
    build: Callable[[KStream[str, str]], object], answer: Any = "fail", **more: Any
) -> Task:
    """A task that is driven in parts, below a stream of ``in``."""
    app = sl.App("app")
    build(app.stream("in", key=str, value=str))
    part = app.topology().subtopology(0)
    state = TaskState(None, part.stores, 1 << 20)
    given = {"in_parts": True, **more}
    policy = ErrorPolicy.of("fail", processing=answer)
    return Task(TaskId(0, 0), part, state, {IN: 0}, policy=policy, **given)


def raw(
    records: Sequence[tuple[str | None, str]],
    first: int = 0,
    headers: list[Headers | None] | None = None,
) -> PartitionBatch:
    """Records of these keys and values."""
    keys = [None if key is None else key.encode() for key, _ in records]
    found = [value.encode() for _, value in records]
    times = [1_000 + first + i for i in range(len(records))]
    offsets = range(first, first + len(records))
    return PartitionBatch("in", 0, offsets, list(keys), list(found), times, headers)


def values(outputs: list[Output], topic: str = "out") -> list[str]:
    """The values written to a topic."""
    return [(v or b"").decode() for out in outputs if out.topic == topic for v in out.values]


def come(task: Task, count: int, topic: str = "out") -> list[str]:
    """The next so many values that come, and no more."""
    outputs: list[Output] = []

    def there() -> bool:
        if task.waits(0):
            outputs.extend(task.resume(0))
        return len(values(outputs, topic)) >= count

    wait_for(there, f"{count} results")
    assert len(values(outputs, topic)) == count
    return values(outputs, topic)
