"""Types that must survive a topology; checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import streamlet as sl
from streamlet import KGroupedStream, KStream, KTable
from streamlet.testing import TopologyTestDriver


@dataclass
class Flight:
    carrier: str
    delay: float


@dataclass
class Delay:
    total: float = 0.0

    def add(self, flight: Flight) -> Delay:
        self.total += flight.delay
        return self


app = sl.App("flights", config={"num.standby.replicas": 1})
flights = app.stream("flights", key=str, value=Flight)
airlines = app.table("airlines", key=str, value=dict[str, str])
assert_type(flights, KStream[str, Flight])
assert_type(airlines, KTable[str, dict[str, str]])
calm = airlines.suppress(sl.until_time_limit("10s", max_bytes=1 << 20, when_full="shut_down"))
assert_type(calm, KTable[str, dict[str, str]])

assert_type(flights.filter(lambda k, f: f.delay > 0), KStream[str, Flight])
assert_type(flights.map_values(lambda f: f.delay), KStream[str, float])
assert_type(flights.map_values(lambda k, f: (k, f)), KStream[str, tuple[str, Flight]])
assert_type(flights.flat_map_values(lambda f: f.carrier.split()), KStream[str, str])


async def looked_up(flight: Flight) -> int:
    return len(flight.carrier)


async def looked_up_by_key(key: str, flight: Flight) -> bytes:
    return key.encode()


looked = flights.map_values_async(looked_up, retry=sl.Retry(3), order="partition")
assert_type(looked, KStream[str, int])
assert_type(flights.map_values_async(looked_up_by_key, timeout="1s"), KStream[str, bytes])
assert_type(flights.map_values_async(lambda f: looked_up(f)), KStream[str, int])


def delays_in(batch: sl.RecordBatch[str, Flight]) -> NDArray[np.float64]:
    return batch.to_numpy("delay")


assert_type(flights.map_batches(delays_in, max_wait="1s"), KStream[str, float])
assert_type(flights.map_batches(lambda b: [f.carrier for f in b.values]), KStream[str, str])
assert_type(flights.map_batches(lambda b: b.to_numpy("delay") > 0, value=bool), KStream[str, bool])
assert_type(flights.map(lambda k, f: (f.delay, k)), KStream[float, str])
assert_type(flights.flat_map(lambda k, f: [(f.delay, k)]), KStream[float, str])
assert_type(flights.select_key(lambda k, f: f.carrier), KStream[str, Flight])
assert_type(flights.peek(lambda k, f: print(f.carrier)), KStream[str, Flight])
assert_type(flights.merge(flights), KStream[str, Flight])
assert_type(flights.repartition(name="again", partitions=3), KStream[str, Flight])


@sl.with_context
def sent(key: str, flight: Flight, context: sl.RecordContext) -> float:
    context.set_header("carrier", flight.carrier.encode())
    return flight.delay


assert_type(flights.map_values(sent), KStream[str, float])
split = flights.split(name="by-").branch(lambda k, f: f.delay > 0, name="late")
assert_type(split, sl.BranchedKStream[str, Flight])
assert_type(flights.to_table(), sl.KTable[str, Flight])
flights.filter(sl.with_context(lambda k, f, context: f.delay > context.timestamp))
flights.peek(sl.with_context(lambda k, f, context: print(k.upper(), f.carrier, context.topic)))

grouped = flights.group_by(lambda k, f: f.carrier, key=str)
assert_type(grouped, KGroupedStream[str, Flight])
assert_type(flights.group_by_key(), KGroupedStream[str, Flight])
assert_type(grouped.count(), KTable[str, int])
windowed = grouped.windowed_by(sl.tumbling("5m", grace="30s"))
assert_type(windowed, sl.WindowedKStream[str, Flight])
assert_type(windowed.count(), KTable[sl.Windowed[str], int])
assert_type(windowed.reduce(lambda one, two: two), KTable[sl.Windowed[str], Flight])
assert_type(
    windowed.aggregate(float, lambda k, v, total: total + v.delay),
    KTable[sl.Windowed[str], float],
)
assert_type(grouped.reduce(lambda one, other: other), KTable[str, Flight])
delays = grouped.aggregate(lambda: Delay(), lambda k, f, d: d.add(f), store="delays")
assert_type(delays, KTable[str, Delay])

assert_type(delays.filter(lambda k, d: d.total > 0), KTable[str, Delay])
assert_type(delays.map_values(lambda d: d.total), KTable[str, float])
assert_type(delays.map_values(lambda d: d.total, store="totals"), KTable[str, float])
assert_type(
    delays.transform_values(lambda k, d: k if d is None else d.total), KTable[str, str | float]
)
assert_type(delays.to_stream(), KStream[str, Delay])
assert_type(delays.to_stream(lambda k, d: len(k)), KStream[int, Delay])
assert_type(
    delays.to_stream().join(airlines, lambda d, a: (d.total, a["name"])),
    KStream[str, tuple[float, str]],
)
assert_type(
    delays.join(airlines, lambda d, a: (d.total, a["name"]), foreign_key=lambda d: "x"),
    KTable[str, tuple[float, str]],
)
by_number = app.table("numbers", key=int, value=str)
assert_type(
    delays.left_join(by_number, lambda k, f, d, s: (f, s), foreign_key=lambda k, d: len(k)),
    KTable[str, tuple[int | None, str | None]],
)
within = sl.join_windows("5m", after="1h", grace="10s")
assert_type(
    flights.join(flights, lambda f, g: f.delay + g.delay, within=within), KStream[str, float]
)
assert_type(
    flights.left_join(flights, lambda k, f, g: k if g is None else g.carrier, within=within),
    KStream[str, str],
)
assert_type(
    flights.outer_join(flights, lambda f, g: (f, g), within=within, store="both", name="both"),
    KStream[str, tuple[Flight | None, Flight | None]],
)
assert_type(flights.left_join(airlines, lambda k, f, a: a["name"] if a else k), KStream[str, str])
flights.to("out", partitioner=lambda k, f, n: len(f.carrier) % n)
assert_type(app.stream("keyless", key=None, value=str), KStream[None, str])
assert_type(app.stream("any", key=bytes, value=sl.json()), KStream[bytes, Any])

daily = grouped.windowed_by(sl.calendar("1d", tz="Europe/Berlin", offset="18h", grace="1h"))
assert_type(daily.count(), KTable[sl.Windowed[str], int])
mine = sl.custom_windows("mine", lambda time: [(time, time + 5)], max_size="1m")
assert_type(grouped.windowed_by(mine).count(), KTable[sl.Windowed[str], int])


def stores_of(
    values: sl.KeyValueStore[str, int],
    timed: sl.TimestampedStore[str, int],
    windows: sl.WindowStore[str, int],
    sessions: sl.SessionStore[str, int],
    versions: sl.VersionedKeyValueStore[str, int],
) -> None:
    """What each read of a store gives."""
    assert_type(values.put_if_absent("a", 1), int | None)
    assert_type(values.reverse_all(), Iterator[tuple[str, int]])
    assert_type(values.prefix_scan(b"a", bytes), Iterator[tuple[str, int]])
    assert_type(timed.put_if_absent("a", 1, 5), sl.ValueAndTimestamp[int] | None)
    assert_type(timed.reverse_all(), Iterator[tuple[str, sl.ValueAndTimestamp[int]]])
    assert_type(windows.fetch("a", 0), int | None)
    assert_type(windows.fetch("a", 0, None), Iterator[tuple[int, int]])
    assert_type(windows.backward_fetch("a", "b", 0, 9), Iterator[tuple[sl.Windowed[str], int]])
    assert_type(windows.backward_fetch_all(0, 9), Iterator[tuple[sl.Windowed[str], int]])
    assert_type(sessions.fetch("a", "b"), Iterator[tuple[sl.Windowed[str], int]])
    assert_type(sessions.find_sessions("a", 0, 9), Iterator[tuple[sl.Windowed[str], int]])
    assert_type(sessions.find_sessions(0, None), Iterator[tuple[sl.Windowed[str], int]])
    assert_type(versions.get("a", as_of=5), sl.VersionedRecord[int] | None)
    assert_type(versions.get("a", 0, 5), Iterator[sl.VersionedRecord[int]])
    assert_type(versions.put("a", 1, 5), int)


def driver_stores(driver: TopologyTestDriver) -> None:
    """A test has the store that it names with a kind."""
    counts = driver.store("counts", sl.KeyValueStore[str, int], partition=1)
    assert_type(counts, sl.KeyValueStore[str, int])
    assert_type(
        driver.store("counts", sl.TimestampedStore[str, int]), sl.TimestampedStore[str, int]
    )
    per_day = driver.store("per-day", sl.WindowStore[str, int])
    assert_type(per_day.fetch("a", 0, None), Iterator[tuple[int, int]])
    built = sl.session_store("visits", key=str, value=float, retention="1h")
    assert_type(driver.store(built), sl.SessionStore[str, float])
