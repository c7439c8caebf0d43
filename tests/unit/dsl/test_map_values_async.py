"""``map_values_async``: what it takes, what it says of its results, and whole applications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.stream import KStream
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing import TopologyTestDriver
from streamlet.topology.edges import edges_of

Stream = KStream[str, str]


async def length(value: str) -> int:
    return len(value)


async def several(value: str) -> AsyncIterator[str]:
    yield value


def stream(app: App | None = None) -> Stream:
    return (app or App("a")).stream("in", key=str, value=str)


class Later:
    """An async function whose last calls end first."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.calls = 0

    async def __call__(self, key: str, value: str) -> str:
        self.calls += 1
        if self.calls < 3:
            await self.left.wait()
        self.left.set()
        return f"{key}{value}"


@pytest.mark.parametrize("order", ["key", "partition"])
def test_the_driver_awaits_all_and_sends_results_in_the_order_of_records(order: Any) -> None:
    app = App("a")
    stream(app).map_values_async(Later(), order=order, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "1"), ("b", "2"), ("c", "3"), ("c", "4")])
        found = [record.value for record in driver.read_output("out")]
    assert found == ["a1", "b2", "c3", "c4"]


def test_state_behind_it_and_before_it_counts_each_record_once() -> None:
    app = App("a")
    counted = stream(app).group_by_key().count(store="before").to_stream()
    numbers = counted.map_values_async(length_of_number)
    numbers.group_by(lambda key, digits: digits, key=int).count(store="behind")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", "x")] * 12)
        assert driver.store("before").get("k") == 12
        assert list(driver.store("behind").range()) == [(1, 9), (2, 3)]


async def length_of_number(value: int) -> int:
    return len(str(value))


def test_refusals_are_tried_again_at_once_in_the_driver() -> None:
    attempts: list[tuple[int, int]] = []
    calls: list[str] = []

    async def flaky(value: str) -> str:
        calls.append(value)
        raise ConnectionError(value)

    def handler(context: sl.ErrorContext, record: object, error: BaseException) -> sl.Answer:
        attempts.append((context.offset, context.attempt))
        return sl.Retry(5, backoff="1h", then="skip")

    app = App("a", processing_handler=handler)
    retry = sl.Retry(3, backoff="1h", longest="1h")
    stream(app).map_values_async(flaky, retry=retry).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "x"), ("a", "y")])
        assert (driver.read_output("out"), driver.skipped()) == ([], 2)
    assert calls == ["x"] * 5 + ["y"] * 5
    assert attempts == [(offset, attempt) for offset in (0, 1) for attempt in (3, 4, 5)]


def test_an_error_names_the_line_of_the_function_and_the_record() -> None:
    async def broken(value: str) -> str:
        raise ValueError("no such thing")

    app = App("a")
    stream(app).map_values_async(broken).to("out")
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(ProcessingError, match="in broken, `raise ValueError") as raised,
    ):
        driver.pipe_input("in", "k", "v")
    assert raised.value.operator == "KSTREAM-MAPVALUESASYNC-0000000001"


def test_a_function_may_leave_by_any_error() -> None:
    async def leaving(value: str) -> str:
        raise {"exit": SystemExit, "cancel": asyncio.CancelledError}[value]

    app = App("a", on_error="skip")
    stream(app).map_values_async(leaving).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "exit"), ("a", "cancel")])
        assert driver.skipped() == 2


@attrs.frozen
class Point:
    """A key that is no dict key by its value, as an application may have it."""

    at: list[int]


def test_keys_of_any_type_have_their_calls_in_order() -> None:
    running: list[int] = []
    most = 0

    async def counted(key: Point, value: str) -> str:
        nonlocal most
        running.append(key.at[0])
        most = max(most, max(running.count(one) for one in running))
        await asyncio.sleep(0)
        running.remove(key.at[0])
        return value

    app = App("a")
    app.stream("in", key=Point, value=str).map_values_async(counted).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [(Point([n % 2]), "v") for n in range(10)])
        assert len(driver.read_output("out")) == 10
    assert most == 1


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda s: s.map_values_async(5), "expects an async function, got 5"),
        (lambda s: s.map_values_async(several), "several yields"),
        (lambda s: s.map_values_async(lambda: None), r"calls its function as \(value\)"),
        (lambda s: s.map_values_async(sl.with_context(Later())), "has no RecordContext"),
        (lambda s: s.map_values_async(length, concurrency=0), "concurrency 0: expected 1 to"),
        (
            lambda s: s.map_values_async(length, concurrency=True),
            "expects a whole number, got True",
        ),
        (lambda s: s.map_values_async(length, timeout=0), "timeout 0"),
        (lambda s: s.map_values_async(length, timeout="soon"), "timeout 'soon'"),
        (lambda s: s.map_values_async(length, order="none"), "expected 'key' or 'partition'"),
        (lambda s: s.map_values_async(length, retry=3), "retry 3: expected a streamlet.Retry"),
        (
            lambda s: s.map_values_async(length, retry=sl.Retry(3, then="skip")),
            "decided by processing_handler or on_error",
        ),
        (
            lambda s: s.select_key(lambda k, v: object()).map_values_async(length),
            "type is not known after select_key",
        ),
    ],
)
def test_what_cannot_be_is_refused(build: Callable[[Stream], object], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        build(stream())


def test_without_an_order_of_keys_their_type_need_not_be_known() -> None:
    rekeyed = stream().select_key(lambda k, v: object())
    assert rekeyed.map_values_async(length, order="partition")._value.of is int


@pytest.mark.parametrize(
    "function", [length, sl.non_deterministic(length), lambda value: length(value)]
)
def test_a_repartition_topic_behind_it_is_not_exact(function: Any) -> None:
    app = App("a")
    numbers = stream(app).map_values_async(function, value=int)
    numbers.group_by(lambda key, number: number, key=int).count(store="counts")
    (edge,) = edges_of(app.topology())
    assert edge.reason is not None
    assert "KSTREAM-MAPVALUESASYNC-0000000001, whose results come when calls end" in edge.reason


def test_one_beside_it_stays_exact() -> None:
    app = App("a")
    records = stream(app)
    records.map_values_async(length).to("out")
    records.group_by(lambda key, value: value, key=str).count(store="counts")
    (edge,) = edges_of(app.topology())
    assert edge.exact


def test_origins_behind_it_are_refused() -> None:
    app = App("a")
    stream(app).map_values_async(length).to("out", origin=True)
    with pytest.raises(TopologyError, match="come when calls end, not each with a record"):
        app.topology()


def test_results_have_the_type_that_is_awaited() -> None:
    def made(value: str) -> Awaitable[int | None]:
        return length(value)

    assert stream().map_values_async(made)._value.of is int


async def stops_the_loop(value: int) -> int:
    asyncio.get_running_loop().stop()
    return value


async def exits_in_the_background(value: int) -> int:
    begun = asyncio.create_task(exits(value))
    await asyncio.sleep(0)
    return value if begun.done() else 0


async def exits(value: int) -> int:
    raise SystemExit(value)


async def goes_on_when_cancelled(value: int) -> int:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3_600)


async def cancels_all(value: int) -> int:
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)
    return value


@pytest.mark.parametrize(
    ("harm", "lost"),
    [
        (stops_the_loop, 0),
        (exits_in_the_background, 0),
        (goes_on_when_cancelled, 1),
        (cancels_all, 2),  # the call behind it has not begun when it is cancelled
    ],
)
def test_a_function_that_harms_the_loop_stops_no_later_call(
    harm: Any, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of all tasks share the loop, and a commit waits for them."""
    monkeypatch.setattr("streamlet.processing.call_pool._GRACE_MS", 10)

    async def call(value: int) -> int:
        found: int = await harm(value) if value == 2 else value
        return found

    app = sl.App("a", on_error="skip")
    numbers = app.stream("in", key=str, value=int)
    numbers.map_values_async(call, timeout="50ms", order="partition").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", value) for value in (1, 2, 3)])
        driver.pipe_input("in", "k", 4)
        assert driver.skipped() == lost
        assert [record.value for record in driver.read_output("out")][-1] == 4
