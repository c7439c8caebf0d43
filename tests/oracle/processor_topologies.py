"""The recorded topologies with processors: the function ``foo_bar`` is the topology ``foo-bar``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import streamlet as sl
from tests.oracle.helpers import out, pair, stream


class _CountToChildren(sl.Processor[str, str, str, int]):
    def process(self, record: sl.Record[str, str]) -> None:
        if record.key is None:
            return
        store: sl.KeyValueStore[str, int] = self.context.store("counts")
        if record.value is None:
            store.delete(record.key)
            return
        count = (store.get(record.key) or 0) + 1
        store.put(record.key, count)
        child = "even" if count % 2 == 0 else "odd"
        self.context.forward(record.with_value(count), None if count % 5 == 0 else child)


def processor_named_children(app: sl.App) -> None:
    counts = sl.key_value_store("counts", key=str, value=int)
    counted: sl.KStream[str, int] = stream(app).process(
        _CountToChildren, stores=[counts], name="count"
    )
    out(counted.child("odd"), "out-odd")
    out(counted.child("even"), "out-even")


def fixed_key_processor(app: sl.App) -> None:
    """The last value and this one; putting null deletes."""

    def with_last(record: sl.Record[str, str], context: sl.ProcessorContext[str, str]) -> Any:
        if record.key is None:
            return None
        store = context.store("last")
        last = store.get(record.key)
        store.put(record.key, record.value)
        return pair(last, record.value)

    last = sl.key_value_store("last", key=str, value=str)
    out(stream(app).process_values(with_last, stores=[last], value=str))


def processor_range_scan(app: sl.App) -> None:
    """All keys from a to c, then those from b on backwards."""

    def scan(
        record: sl.Record[str, str], context: sl.ProcessorContext[str, str]
    ) -> Iterator[sl.Record[str, str]]:
        if record.key is None:
            return
        store = context.store("items")
        store.put(record.key, record.value)
        there = "".join(f"{key}{value} " for key, value in store.range("a", "c"))
        back = "".join(f"{key} " for key, _ in store.reverse_range("b", None))
        yield record.with_value(f"{there}/ {back}".strip())

    items = sl.key_value_store("items", key=str, value=str)
    out(stream(app).process(scan, stores=[items]))


class _CountAndFlush(sl.Processor[str, str, str, str]):
    def __init__(self, by: Literal["stream_time", "wall_clock"]) -> None:
        self.by: Literal["stream_time", "wall_clock"] = by

    def init(self, context: sl.ProcessorContext[str, str]) -> None:
        self.store: sl.KeyValueStore[str, int] = context.store("counts")
        context.schedule(50, self.by, self.flush)

    def process(self, record: sl.Record[str, str]) -> None:
        if record.key is not None:
            self.store.put(record.key, (self.store.get(record.key) or 0) + 1)

    def flush(self, time: int) -> Iterator[sl.Record[str, str]]:
        for key, count in list(self.store.all()):
            yield sl.Record(key, f"{count}@{time}", time)
            self.store.delete(key)


def punctuate_stream_time(app: sl.App) -> None:
    """Every 50 ms of stream time: sends each key's count and deletes it."""
    counts = sl.key_value_store("counts", key=str, value=int)
    out(stream(app).process(lambda: _CountAndFlush("stream_time"), stores=[counts], **_STR))


def punctuate_wall_clock(app: sl.App) -> None:
    counts = sl.key_value_store("counts", key=str, value=int)
    out(stream(app).process(lambda: _CountAndFlush("wall_clock"), stores=[counts], **_STR))


class _ThreeTimes(sl.Processor[str, str, str, str]):
    def init(self, context: sl.ProcessorContext[str, str]) -> None:
        self.calls = self.records = 0
        self.schedule = context.schedule(50, "stream_time", self.punctuate)

    def process(self, record: sl.Record[str, str]) -> sl.Record[str, str]:
        self.records += 1
        return record

    def punctuate(self, time: int) -> sl.Record[str, str]:
        self.calls += 1
        if self.calls == 3:
            self.schedule.cancel()
        return sl.Record("punctuate", f"{self.calls}/{self.records}@{time}", time)


def punctuate_cancel(app: sl.App) -> None:
    """A punctuator that cancels itself after three calls."""
    out(stream(app).process(_ThreeTimes))


class _Ttl(sl.Processor[str, str, str, str]):
    def init(self, context: sl.ProcessorContext[str, str]) -> None:
        self.live: sl.TimestampedStore[str, str] = context.store("live")
        context.schedule(25, "stream_time", self.expire)

    def process(self, record: sl.Record[str, str]) -> sl.Record[str, str] | None:
        if record.key is None:
            return None
        self.live.put(record.key, record.value, record.timestamp)
        return record

    def expire(self, time: int) -> Iterator[sl.Record[str, str]]:
        for key in [key for key, row in self.live.all() if row.timestamp < time - 100]:
            self.live.delete(key)
            yield sl.Record[Any, Any](key, None, time)


def ttl_by_punctuator(app: sl.App) -> None:
    """A key that is not seen for more than 100 ms is deleted and its tombstone sent."""
    out(stream(app).process(_Ttl, stores=[sl.timestamped_store("live", key=str, value=str)]))


def dedupe_window_store(app: sl.App) -> None:
    """A value of a key goes on once within 50 ms before or after."""

    def once(
        record: sl.Record[str, str], context: sl.ProcessorContext[str, str]
    ) -> sl.Record[str, str] | None:
        if record.key is None or record.value is None:
            return None
        seen: sl.WindowStore[str, int] = context.store("seen")
        name, time = record.key + record.value[0], record.timestamp
        if any(seen.fetch(name, max(0, time - 50), time + 50)):
            return None
        seen.put(name, time, time)
        return record

    seen = sl.window_store("seen", key=str, value=int, size=50, retention=200)
    out(stream(app).process(once, stores=[seen]))


def forward_timestamp(app: sl.App) -> None:
    """A processor that moves the time by 60 before a windowed count."""

    def shifted(record: sl.Record[str, str]) -> sl.Record[str, str]:
        return record.with_timestamp(record.timestamp + 60)

    windows = sl.tumbling(100, grace=30)
    out(stream(app).process(shifted).group_by_key().windowed_by(windows).count(store="counts"))


_STR: dict[str, Any] = {"key": str, "value": str}


def versioned_get_as_of(app: sl.App) -> None:
    """The value at the record's time, the one at 30 before it, and the newest one."""

    def put(record: sl.Record[str, str], context: sl.ProcessorContext[str, str]) -> None:
        if record.key is not None:
            context.store("history").put(record.key, record.value, record.timestamp)

    def text(found: sl.VersionedRecord | None) -> str:
        """Kafka Streams does not tell how long the value was valid."""
        return "-" if found is None else f"{found.value}@{found.timestamp}-"

    def ask(record: sl.Record[str, str], context: sl.ProcessorContext[str, str]) -> Any:
        if record.key is None:
            return None
        get, now = context.store("history").get, record.timestamp
        found = get(record.key, now), get(record.key, now - 30), get(record.key)
        return record.with_value(" ".join(map(text, found)))

    history = sl.versioned_store("history", key=str, value=str, history="150ms")
    stream(app).process(put, stores=[history])
    out(stream(app, "ask").process(ask, stores=[history], key=str, value=str))
