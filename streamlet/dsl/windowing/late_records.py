"""Records that come for windows that are closed: sent to a topic, or given to a function.

One for each window that a record is late for, as they are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import check_callable
from streamlet.batch import Batch
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.functions import check_takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.operators.columns import collect_unused, finished
from streamlet.kafka.ports import Headers
from streamlet.serdes.windowed import Windowed
from streamlet.topology.names import check_topic_name
from streamlet.topology.operator import Operator, TaskContext

K = TypeVar("K")
V = TypeVar("V")


@explains_misuse
@attrs.frozen
class LateRecord(Generic[K, V]):
    """A record that came for a window that was closed.

    ``topic``, ``partition`` and ``offset`` say where it was read, times are ms since the epoch.
    ``stream_time`` is that of the aggregation, by which the window was closed.
    """

    key: K
    value: V
    timestamp: int
    headers: Headers
    topic: str
    partition: int
    offset: int
    window: Windowed[K]
    stream_time: int


#: What ``late=`` takes: the name of a topic, or a function.
Late: TypeAlias = str | Callable[[LateRecord[Any, Any]], object]


@attrs.frozen
class LateHeaders:
    """Puts into headers what a record was late for, and where it was read."""

    operator: str
    application: str

    def process(self, batch: Batch) -> Batch:
        """The records with headers that name operator, place, window and stream time.

        Those of an earlier time at which the record was late are left out.
        """
        own = batch.headers or [None] * len(batch)
        columns = zip(own, batch.offsets, batch.olds or (), strict=True)
        headers = [
            self._headers(one or (), self._added(batch, offset, *late))
            for one, offset, late in columns
        ]
        return attrs.evolve(batch, headers=headers, olds=None)

    @staticmethod
    def _headers(own: Headers, added: dict[str, bytes]) -> Headers:
        return [*(header for header in own if header[0] not in added), *added.items()]

    def _added(
        self, batch: Batch, offset: int, window: tuple[int, int], stream_time: int
    ) -> dict[str, bytes]:
        named = {
            "application": self.application,
            "topic": batch.topic,
            "partition": batch.partition,
            "offset": offset,
            "operator": self.operator,
            "window.start": window[0],
            "window.end": window[1],
            "stream.time": stream_time,
        }
        return {f"streamlet.{name}": str(value).encode() for name, value in named.items()}


@attrs.frozen
class CallLate:
    """Calls a function with each late record."""

    function: Callable[[LateRecord[Any, Any]], object]

    def process(self, batch: Batch) -> Batch:
        """An empty batch; raises ``OperatorFailed`` when the function fails."""
        own = batch.headers or [None] * len(batch)
        columns = zip(
            batch.keys,
            batch.values,
            batch.timestamps,
            own,
            batch.offsets,
            batch.olds or (),
            strict=True,
        )
        records = (
            LateRecord(
                key,
                value,
                time,
                headers or (),
                batch.topic,
                batch.partition,
                offset,
                Windowed(key, *window),
                stream_time,
            )
            for key, value, time, headers, offset, (window, stream_time) in columns
        )
        done, error = collect_unused(map(self.function, records), len(batch))
        return finished(batch.slice(0, 0), error, len(done), again=False)


def check_late(late: Any) -> None:
    """Refuse a ``late=`` that is neither a topic nor a function.

    Raises:
        WrongTypeError: it is neither.
        TopologyError: it is no name of a topic.
    """
    if isinstance(late, str):
        check_topic_name(late, "windowed_by(late=)")
    elif late is not None:
        check_callable("windowed_by(late=)", late, "a topic or a function")


def add_late(builder: Builder, fold: str, late: Late, key: Kind, value: Kind) -> None:
    """Add the nodes that late records of an aggregation go to.

    Raises:
        TopologyError: the function takes something else, or the types of the records are not known.
    """
    name = f"{fold}-late"

    def make(context: TaskContext) -> Operator:
        return LateHeaders(fold, context.application) if isinstance(late, str) else CallLate(late)

    if not isinstance(late, str):
        check_takes("windowed_by()", late, "record")
    builder.named_processor(name, (fold,), make, aside=True)
    if isinstance(late, str):
        call = "windowed_by(late=)"
        serdes = key.needed(call, "key", takes=False), value.needed(call, "value", takes=False)
        builder.sink(name, late, *serdes)
