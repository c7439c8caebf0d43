"""A task over state on disk that tests feed in batches, restart, and run with a tiny cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from streamlet.app import App
from streamlet.dsl.table import KTable
from streamlet.dsl.windowed import WindowedKStream
from streamlet.dsl.windowing.windows import Windows
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.task import Task
from streamlet.serdes import serde
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TaskId, TopicPartition

#: A record: key, which may be missing, and timestamp; its value is a letter that tells its number.
Record = tuple[str | None, int]
Update = tuple[str, int, int, Any]

INPUT = TopicPartition("in", 0)
Fold = Callable[[WindowedKStream[str, str]], KTable[Any, Any]]


def counted(windowed: WindowedKStream[str, str]) -> KTable[Any, Any]:
    return windowed.count(store="windows")


class WindowTask:
    """One task with a windowed fold of the topic ``in``, whose updates go to ``out``."""

    def __init__(
        self,
        windows: Windows,
        folder: Path | None,
        fold: Fold = counted,
        cache_bytes: int = 1,
        emit: Literal["updates", "on_commit", "final"] = "updates",
        in_parts: bool = False,
    ) -> None:
        app = App("a")
        stream = app.stream("in", key=str, value=str)
        fold(stream.group_by_key().windowed_by(windows, emit=emit)).to_stream().to("out")
        (self.part,) = app.topology().subtopologies
        self.folder, self.cache_bytes, self.in_parts = folder, cache_bytes, in_parts
        self.offset = self.commits = 0
        self.late = 0
        self.open()

    def open(self) -> None:
        self.state = TaskState(self.folder, self.part.stores, self.cache_bytes)
        self.task = Task(
            TaskId(0, 0), self.part, self.state, {INPUT: self.offset}, in_parts=self.in_parts
        )

    def restart(self) -> None:
        """Close and open again: only what was committed is left."""
        self.close()
        self.open()

    def close(self) -> None:
        self.late += self.task.counters.late
        self.state.close()

    def send(self, records: Sequence[Record]) -> list[Update]:
        """Process a batch; the updates: key, start, end, value."""
        keys = serde(str).encode_column([key for key, _ in records])
        letters = [chr(ord("a") + (self.offset + i) % 26) for i in range(len(records))]
        values = [serde(str).encode(letter) for letter in letters]
        offsets = range(self.offset, self.offset + len(records))
        times = [time for _, time in records]
        self.offset += len(records)
        outputs = self.task.process(PartitionBatch("in", 0, offsets, keys, values, times, None))
        self.parts = 1
        while self.task.under_way:
            outputs += self.task.resume(0)
            self.parts += 1
        self.store.commits.check_invariants()
        return list(self._decoded(outputs))

    def commit(self) -> list[Update]:
        """Commit; the updates that waited for that."""
        outputs = self.task.settle()
        self.commits += 1
        self.state.write(self.state.drain(), StateNumber(1, self.commits), {})
        return list(self._decoded(outputs))

    @property
    def store(self) -> Any:
        return self.state.stores["windows"]

    def table(self) -> dict[tuple[str, int, int], Any]:
        """The rows that the store shows."""
        return {tuple(window): value for window, value in self.store.range()}

    def _decoded(self, outputs: Iterable[Any]) -> Iterable[Update]:
        (sink,) = self.part.sinks
        for output in outputs:
            for key, value in zip(output.keys, output.values, strict=True):
                yield *sink.key.decode(key), None if value is None else sink.value.decode(value)
