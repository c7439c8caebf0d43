"""A task over state on disk whose records are documents, of two topics, and which starts again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import streamlet as sl
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.serdes import serde
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TaskId

#: Topic, key and value.
Fed = tuple[str, str, Any]

DOCUMENTS = serde(dict)


class DocumentTask:
    """The task of an application that reads ``s`` and ``t``, and perhaps its own topics.

    Args:
        app: the application.
        folder: of its stores; None: they are in memory, and it never starts again.
        policy: for records that fail.
    """

    def __init__(self, app: sl.App, folder: Path | None, policy: ErrorPolicy | None = None) -> None:
        (self.part,) = app.topology().subtopologies
        self._folder, self._policy = folder, policy or ErrorPolicy.of("fail")
        self._commits, self._time = 0, 0
        self._ends = dict.fromkeys(self.part.inputs(0, dict.fromkeys("st", 1)), 0)
        self.outputs: dict[str, list[tuple[str, Any]]] = {}
        self._open()

    def _open(self) -> None:
        self.state = TaskState(self._folder, self.part.stores, 1)
        self._task = Task(
            *(TaskId(0, 0), self.part, self.state, self._ends), policy=self._policy, in_parts=True
        )

    def start_again(self) -> None:
        """Commit, and go on with nothing in memory."""
        self.settle()
        self._commits += 1
        drained = self.state.drain()
        self.state.write(drained, StateNumber(1, self._commits), {})
        self.close()
        self._open()

    def settle(self) -> None:
        """Send on what waits for a commit."""
        self._note(self._task.settle())

    def close(self) -> None:
        self._task.close()
        self.state.close()

    def send(self, records: Sequence[Fed]) -> None:
        """Have the task take records of both topics together."""
        for where in self._ends:
            mine = [(at, one) for at, one in enumerate(records) if one[0] == where.topic]
            if not mine:
                continue
            offsets = range(self._ends[where], self._ends[where] + len(mine))
            self._ends[where] += len(mine)
            keys: list[bytes | None] = [key.encode() for _, (_, key, _) in mine]
            values = DOCUMENTS.encode_column([value for _, (_, _, value) in mine])
            times = [self._time + at for at, _ in mine]
            raw = PartitionBatch(*where, offsets, keys, values, times, None)
            self._note(self._task.process(raw, 0, lambda _: None))
        self._time += len(records)
        self._note(self._task.resume(0))
        while self._task.under_way:
            self._note(self._task.resume(0))

    def _note(self, outputs: list[Any]) -> None:
        sinks = {sink.topic: sink for sink in self.part.sinks}
        for out in outputs:
            decode = sinks[out.topic].value.decode
            for key, value in zip(out.keys, out.values, strict=True):
                row = key.decode(), None if value is None else decode(value)
                self.outputs.setdefault(out.topic, []).append(row)

    def rows(self) -> dict[str, list[Any]]:
        """The rows of all stores."""
        return {
            name: sorted(((repr(row[0]), row[1]) for row in store.range()), key=lambda row: row[0])
            for name, store in self.state.stores.items()
        }


def played(
    build: Callable[[sl.App], None],
    records: Sequence[Fed],
    size: int,
    folder: Path | None = None,
) -> tuple[Any, Any]:
    """Outputs and rows after records that come so many at a time.

    With a folder the task starts again behind each batch.
    """
    app = sl.App("a")
    build(app)
    task = DocumentTask(app, folder)
    for start in range(0, len(records), size):
        task.send(records[start : start + size])
        if folder is not None:
            task.start_again()
    task.settle()
    found = task.outputs, task.rows()
    task.close()
    return found
