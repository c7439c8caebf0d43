"""Values that nothing looks at: they are not made, and bad ones are answered all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet import columnwise
from streamlet.dsl.stream import KStream
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.processing.unread_values import UnreadValues
from streamlet.serdes import Serde, serde
from streamlet.state.task_state import TaskState
from streamlet.types import TaskId, TopicPartition

needs_extension = pytest.mark.skipif(
    columnwise.are_documents is None, reason="without the extension every value is made"
)

FLOWS: dict[str, tuple[bool, Callable[[KStream[Any, Any]], object]]] = {
    "a count": (True, lambda s: s.group_by_key().count().to_stream().to("out")),
    "a count of windows": (
        True,
        lambda s: s.group_by_key().windowed_by(sl.tumbling("1s")).count().to_stream().to("out"),
    ),
    "counts of a merged stream": (
        True,
        lambda s: s.merge(s).group_by_key().count(emit="on_commit").to_stream().to("out"),
    ),
    "a count that tells of late records": (
        False,
        lambda s: (
            s.group_by_key()
            .windowed_by(sl.tumbling("1s"), late="late")
            .count()
            .to_stream()
            .to("out")
        ),
    ),
    "a function": (False, lambda s: s.peek(print).group_by_key().count()),
    "a sink beside": (False, lambda s: (s.to("out"), s.group_by_key().count())),
    "a fold": (False, lambda s: s.group_by_key().reduce(lambda a, b: b).to_stream().to("out")),
    "a table": (False, lambda s: s.to_table().to_stream().to("out")),
    "nothing": (False, lambda s: s),
}


@needs_extension
@pytest.mark.parametrize("flow", FLOWS)
def test_values_are_unread_where_nothing_looks_at_them(flow: str) -> None:
    expected, build = FLOWS[flow]
    app = sl.App("unread")
    build(app.stream("in", key=str, value=dict))
    (part,) = app.topology().subtopologies
    assert bool(UnreadValues.of(part).serdes) is expected


@needs_extension
@pytest.mark.parametrize(
    ("value", "timestamp"),
    [(dict[str, int], None), (bytes, None), (dict, lambda key, value, time: time)],
)
def test_values_are_made_that_are_typed_or_asked_for_their_time(value: Any, timestamp: Any) -> None:
    app = sl.App("made")
    app.stream("in", key=str, value=value, timestamp=timestamp).group_by_key().count()
    (part,) = app.topology().subtopologies
    assert not UnreadValues.of(part).serdes


class EachBatch(sl.ProcessorWrapper):
    """A hook that is shown what comes to each operator."""

    def process_batch(self, name: str, batch: Any, process: Callable[[], Any]) -> None:
        process()


@needs_extension
def test_a_hook_around_nodes_sees_the_values() -> None:
    app = sl.App("hooked", processor_wrapper=EachBatch)
    app.stream("in", key=str, value=dict).group_by_key().count()
    (part,) = app.topology().subtopologies
    assert not UnreadValues.of(part).serdes


#: Documents, and what is none: each is answered as where it is decoded.
COLUMNS: list[list[bytes | None]] = [
    [b'{"a": 1}', None, b"{}"],
    [b'{"a": 1}', b"[]", b"{}", b"null", b"", b'{"a": 1e400}', b'{"a": "\\ud83d\\ude00"}'],
    [b'{"a": 1', b'{"a": "\xff"}', b"1", b" {} "],
]


@pytest.mark.parametrize("of", [dict, None])
@pytest.mark.parametrize("column", COLUMNS)
def test_each_value_is_answered_as_where_it_is_made(of: Any, column: list[bytes | None]) -> None:
    known = serde(dict) if of is dict else sl.json()
    as_value = known.as_value or known
    made = attrs.evolve(as_value, decodes=None)
    assert outcome(attrs.evolve(known, as_value=made), column) == outcome(known, column)


def test_a_handler_is_given_the_value_that_nothing_else_looks_at() -> None:
    asked: list[Any] = []

    def handler(context: Any, record: Any, error: BaseException) -> str:
        asked.append((context.stage, record.value))
        return "skip"

    def refuse(key: str) -> bytes:
        if key == "b":
            raise ValueError(key)
        return key.encode()

    app = sl.App("app")
    keyed = app.stream("in", key=(refuse, bytes.decode), value=dict)
    keyed.group_by_key().count().to_stream().to("out")
    task = opened(app, ErrorPolicy.of("fail", deserialization=handler, processing=handler))
    outputs = task.process(batch([b'{"a": 1}', b'{"b": 2}', b'{"c": 3}'], times=[5, 6, -1]))
    assert asked == [("deserialization", {"c": 3}), ("processing", {"b": 2})]
    assert [key for out in outputs for key in out.keys] == [b"a"]


def outcome(of: Serde[Any], column: list[bytes | None]) -> tuple[Any, ...]:
    """The outputs and the counts of what a count makes of a column."""
    app = sl.App("app")
    app.stream("in", key=str, value=of).group_by_key().count().to_stream().to("out")
    task = opened(app, ErrorPolicy.of(("dead_letter", "dead")))
    outputs = task.process(batch(column))
    counts = task.counters
    return plain(outputs), counts.skipped, counts.dropped, counts.dead_lettered, task.positions


def plain(outputs: list[Output]) -> list[tuple[Any, ...]]:
    """The records of outputs."""
    columns = (zip(o.keys, o.values, o.timestamps, strict=True) for o in outputs)
    return [(out.topic, *row) for out, rows in zip(outputs, columns, strict=True) for row in rows]


def opened(app: sl.App, policy: ErrorPolicy) -> Task:
    part = app.topology().subtopology(0)
    state = TaskState(None, part.stores, 1 << 20)
    return Task(TaskId(0, 0), part, state, {TopicPartition("in", 0): 0}, policy=policy)


def batch(column: list[bytes | None], times: list[int] | None = None) -> PartitionBatch:
    keys: list[bytes | None] = [b"abcdefgh"[at : at + 1] for at in range(len(column))]
    found = times or [1_000 + at for at in range(len(column))]
    return PartitionBatch("in", 0, range(len(column)), keys, list(column), found)
