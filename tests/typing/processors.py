"""Types that processors and state functions must keep; checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypedDict, assert_type

import streamlet as sl
from streamlet import KStream, ProcessorContext, Record, State, Timer

app = sl.App("processors")
words = app.stream("words", key=str, value=int)


class Cart(TypedDict, total=False):
    n: int


class Derived(sl.Processor[str, int, bytes, float]):
    def process(self, record: Record[str, int]) -> None:
        self.context.forward(Record(b"k", 1.0, record.timestamp))


class Free:
    def process(self, record: Record[str, int]) -> Iterator[Record[str, int]]:
        yield record


class Keeping(sl.Processor[str, int, str, float]):
    def process(self, record: Record[str, int]) -> float:
        return record.value / 2


def one(record: Record[str, int]) -> Record[bytes, float]:
    return record.with_key(b"").with_value(1.0)


def pair(record: Record[str, int]) -> tuple[bytes, float] | None:
    return (record.key.encode(), 1.0) if record.value else None


def many(record: Record[str, int]) -> Iterator[Record[bytes, float]]:
    yield one(record)


def pairs(record: Record[str, int | None]) -> Iterator[tuple[bytes, float]]:
    yield b"", float(record.value or 0)


def in_context(record: Record[str, int], ctx: ProcessorContext[bytes, float]) -> None:
    ctx.forward(one(record))


def in_any_context(record: Record[str, int], c: ProcessorContext[Any, Any]) -> tuple[bytes, float]:
    return b"", c.stream_time


def stateful(record: Record[str, int], state: State[str]) -> tuple[bytes, float]:
    state.timer(after="1s")
    return b"", state["n"]


def with_dict(record: Record[str, int], known: dict[str, int]) -> tuple[bytes, float]:
    return b"", known["n"]


def with_mapping(record: Record[str, int], known: Mapping[str, Any]) -> tuple[bytes, float]:
    return b"", known["n"]


def with_typed_dict(record: Record[str, int], cart: Cart) -> tuple[bytes, float]:
    return b"", cart.get("n", 0)


def with_both(
    record: Record[str, int], state: State[str], c: ProcessorContext[Any, Any]
) -> tuple[bytes, float]:
    return b"", c.stream_time


def with_both_turned(
    record: Record[str, int], c: ProcessorContext[Any, Any], state: State[str]
) -> tuple[bytes, float]:
    return b"", c.stream_time


def on_timer(timer: Timer[str], state: State[str]) -> tuple[bytes, float]:
    return timer.key.encode(), state["n"]


def untyped(record, ctx):  # type: ignore[no-untyped-def]
    return record.key, ctx.stream_time


def untyped_three(record, state, context):  # type: ignore[no-untyped-def]
    return record.key


assert_type(words.process(Derived), KStream[bytes, float])
assert_type(words.process(lambda: Derived()), KStream[bytes, float])
assert_type(words.process(Free, key=str, value=int), KStream[str, int])
assert_type(words.process(one), KStream[bytes, float])
assert_type(words.process(pair), KStream[bytes, float])
assert_type(words.process(many), KStream[bytes, float])
assert_type(words.process(pairs), KStream[bytes, float])
assert_type(words.process(in_context), KStream[bytes, float])
assert_type(words.process(in_any_context, key=bytes, value=float), KStream[Any, Any])
assert_type(words.process(stateful), KStream[bytes, float])
assert_type(words.process(with_dict), KStream[bytes, float])
assert_type(words.process(with_mapping), KStream[bytes, float])
assert_type(words.process(with_typed_dict, state=Cart), KStream[bytes, float])
words.process(with_both, key=bytes, value=float).to("out")
words.process(with_both_turned, key=bytes, value=float).to("out")
assert_type(words.process(stateful, on_timer=on_timer, ttl="1h"), KStream[bytes, float])
assert_type(words.process(one, on_timer=on_timer), KStream[bytes, float])
words.process(lambda record: (record.key.encode(), 1.0), key=bytes, value=float).to("out")
assert_type(words.process(lambda record, state: ("a", 1), key=str, value=int), KStream[str, int])
words.process(lambda record, state: (record.key, state["n"]), key=str, value=int).to("out")
words.process(lambda record, ctx: ctx.forward(record), key=str, value=int).to("out")
words.process(lambda record, state, context: None, key=str, value=int).to("out")
words.process(lambda record, context, state: None, key=str, value=int).to("out")
words.process(untyped, key=str, value=int).to("out")
words.process(untyped_three, key=str, value=int, on_timer=lambda timer: None).to("out")


def value_of(record: Record[str, int]) -> float:
    return float(record.value)


def value_or_none(record: Record[str, int], ctx: ProcessorContext[str, float]) -> float | None:
    return float(record.value) if ctx.stream_time else None


def record_of(record: Record[str, int]) -> Record[str, float]:
    return record.with_value(1.0)


def values_from(record: Record[str, int]) -> Iterator[float]:
    yield 1.0


def records_from(record: Record[str, int]) -> Iterator[Record[str, float]]:
    yield record.with_value(1.0)


def due(timer: Timer[str], ctx: ProcessorContext[str, float], state: Cart) -> float:
    return 1.0


def values_of(record: Record[str, int], state: State[str]) -> Iterator[float]:
    yield state["n"]


def records_of(record: Record[str, int], state: State[str]) -> Iterator[Record[str, float]]:
    yield record.with_value(1.0)


assert_type(words.process_values(Keeping), KStream[str, float])
assert_type(words.process_values(Free, value=int), KStream[str, int])
assert_type(words.process_values(value_of), KStream[str, float])
assert_type(words.process_values(value_of, value=float), KStream[str, float])
assert_type(words.process_values(value_or_none), KStream[str, float])
assert_type(words.process_values(record_of), KStream[str, float])
assert_type(words.process_values(values_from), KStream[str, float])
assert_type(words.process_values(records_from), KStream[str, float])
assert_type(words.process_values(values_of, value=float), KStream[str, float])
assert_type(words.process_values(records_of, value=float, on_timer=due), KStream[str, float])
words.process_values(lambda record: record.value / 2, value=float).to("out")
words.process(lambda record, state: state.timer(after="1s"), ttl="1h", key=str, value=int)
words.process_values(lambda record, state: state.timer(after="1s"), ttl="1h", value=int)
words.process_values(lambda record, state: state["n"], value=int).to("out")
words.process_values(lambda record, ctx: ctx.stream_time, value=int).to("out")
words.process_values(untyped, value=str).to("out")
words.process_values(untyped_three, value=str, on_timer=on_timer).to("out")


class Ranking:
    def __init__(self, rows: sl.KeyValueStore[str, int]) -> None:
        self.rows = rows


counted = sl.key_value_store("counted", key=str, value=int)
own = sl.custom_store("own", Ranking, key=str, value=int)


def looking(record: Record[str, int], context: ProcessorContext[str, float]) -> float:
    assert_type(context.store(counted), sl.KeyValueStore[str, int])
    assert_type(context.store(own), Ranking)
    table = context.store("table", sl.TimestampedStore[str, float])
    row = table.get(record.key)
    assert_type(row, sl.ValueAndTimestamp[float] | None)
    return row.value if row else float(context.store(counted).get(record.key) or 0)


assert_type(words.process_values(looking, stores=[counted, own, "table"]), KStream[str, float])
assert_type(
    sl.timestamped_store("s", key=str, value=int), sl.StoreBuilder[sl.TimestampedStore[str, int]]
)
assert_type(
    sl.versioned_store("s", key=str, value=int, history="1h"),
    sl.StoreBuilder[sl.VersionedKeyValueStore[str, int]],
)
assert_type(
    sl.window_store("s", key=str, value=int, size=1, retention="1h"),
    sl.StoreBuilder[sl.WindowStore[str, int]],
)
assert_type(
    sl.lru_store("s", key=str, value=int, max_entries=5), sl.StoreBuilder[sl.LruStore[str, int]]
)
