"""A user function that exits, or raises another ``BaseException``, fails on its record."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from streamlet import (
    Materialized,
    Processor,
    Record,
    hopping,
    join_windows,
    session,
    sliding,
)
from streamlet.app import App
from streamlet.dsl.stream import KStream
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing.driver import TopologyTestDriver

RECORDS = [("a", 1), ("b", -1), ("a", 2)]


def leave(*given: Any) -> Any:
    """Exits where one of the arguments is a negative number; else returns the last."""
    if any(type(one) is int and one < 0 for one in given):
        sys.exit(5)
    return given[-1]


def encode(number: int) -> bytes:
    return str(leave(number)).encode()


def decode(raw: bytes) -> int:
    number: int = leave(int(raw))
    return number


Build = Callable[[KStream[str, int]], object]

#: Every kind of place that calls a user's function.
PLACES: dict[str, Build] = {
    "map_values": lambda s: s.map_values(leave, value=int).to("out"),
    "filter": lambda s: s.filter(leave).to("out"),
    "foreach": lambda s: s.foreach(leave),
    "aggregate": lambda s: s.group_by_key().aggregate(int, leave, value=int, store="s"),
    "reduce": lambda s: s.group_by(leave, key=int).reduce(leave, store="s"),
    "sink's serde": lambda s: s.to("out", value=(encode, decode)),
    "sink's partitioner": lambda s: s.to(
        "out", partitioner=lambda key, value, count: leave(value, 0)
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_exit_is_an_error_that_names_its_record(place: str) -> None:
    app = App("a")
    PLACES[place](app.stream("in", key=str, value=int))
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(ProcessingError, match=r"SystemExit: 5.* at in-0 offset 1, operator KSTREAM"),
    ):
        driver.pipe_inputs("in", RECORDS)


@pytest.mark.parametrize("place", PLACES)
def test_the_error_policy_decides_about_an_exit(place: str) -> None:
    app = App("a", on_error="skip")
    PLACES[place](app.stream("in", key=str, value=int))
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", RECORDS)
        assert driver.skipped() == 1


def test_an_exit_in_a_serde_or_a_timestamp_extractor_of_a_source_names_its_record() -> None:
    sources: list[dict[str, Any]] = [
        {"value": (lambda number: str(number).encode(), decode)},
        {"value": int, "timestamp": lambda key, value, time: leave(value, time)},
    ]
    for source in sources:
        app = App("a")
        app.stream("in", key=str, **source).to("out")
        with (
            TopologyTestDriver(app) as driver,
            pytest.raises(ProcessingError, match=r"SystemExit: 5.* at in-0 offset 1"),
        ):
            driver.pipe_inputs("in", RECORDS)


class NoProblems(ValueError):
    """An exception that is false, as a collection of problems without an entry is."""

    def __len__(self) -> int:
        return 0


class Untrue(ValueError):
    """One that can be asked nothing: neither its truth, nor its text, nor its attributes."""

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")

    __hash__ = None  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


def failing(kind: type[BaseException]) -> Callable[..., Any]:
    """Raises where one of the arguments is a negative number; else returns the last."""

    def fail(*given: Any) -> Any:
        if any(type(one) is int and one < 0 for one in given):
            raise kind
        return given[-1]

    return fail


def other(stream: KStream[str, int]) -> Any:
    return stream.map_values(lambda v: v, value=int).to_table()


def timed(stream: KStream[str, int], fail: Any, *, yields: bool = False) -> Any:
    """Calls the function in a punctuator, with the value of the last record."""

    class Timed(Processor[str, int, str, int]):
        last = 0

        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule("1ms", "stream_time", self.yielded if yields else self.called)

        def called(self, time: int) -> None:
            fail(self.last)

        def yielded(self, time: int) -> Any:
            yield str(time), 1
            fail(self.last)

        def process(self, record: Any) -> Any:
            self.last = record.value
            return record

    return stream.process(Timed, key=str, value=int)


def windowed(stream: KStream[str, int], windows: Any, fail: Any, **more: Any) -> Any:
    return stream.group_by_key().windowed_by(windows).aggregate(int, fail, value=int, **more)


WITHIN = join_windows(0)
#: Places that call a function, or keep what it failed on for later.
CALLED: dict[str, Callable[[KStream[str, int], Any], Any]] = {
    "map_values": lambda s, f: s.map_values(f, value=int),
    "map_batches": lambda s, f: s.map_batches(lambda b: list(map(f, b.values)), value=int),
    "flat_map_values": lambda s, f: s.flat_map_values(lambda v: [f(v)], value=int),
    "yielded": lambda s, f: s.flat_map_values(lambda v: (f(one) for one in [v]), value=int),
    "aggregate": lambda s, f: s.group_by_key().aggregate(int, f, value=int).to_stream(),
    "hopping": lambda s, f: windowed(s, hopping("1m", advance="30s"), f),
    "sliding": lambda s, f: windowed(s, sliding("1m", grace="1m"), f),
    "session": lambda s, f: windowed(s, session("1m"), f, merger=lambda k, a, b: b),
    "table": lambda s, f: s.to_table().map_values(f, value=int, store="m").to_stream(),
    "table's serde": lambda s, f: s.to_table(store="m", value=(encode_by(f), decode)).to_stream(),
    "versions": lambda s, f: s.to_table(
        store=Materialized("m", history="1h"), value=(encode_by(f), decode)
    ).to_stream(),
    "filter of a table": lambda s, f: s.to_table().filter(f, store="m").to_stream(),
    "group_by": lambda s, f: (
        s.to_table().group_by(lambda k, v: (k, f(v)), key=str, value=int).count()
    ),
    "view": lambda s, f: s.left_join(
        other(s).map_values(f, value=int), lambda v, row: row, value=int
    ),
    "joiner": lambda s, f: s.join(other(s), f, value=int),
    "foreign key": lambda s, f: s.to_table().join(
        other(s), f, foreign_key=lambda v: str(f(v)), value=int
    ),
    "streams": lambda s, f: s.outer_join(
        s.filter(lambda k, v: False), lambda v, w: f(v), within=WITHIN, value=int
    ),
    "state": lambda s, f: s.process_values(lambda record, state: f(record.value), value=int),
    "async": lambda s, f: s.map_values_async(awaiting(f), value=int),
    "punctuator": timed,
    "punctuator that yields": lambda s, f: timed(s, f, yields=True),
}


def awaiting(fail: Any) -> Any:
    async def call(value: int) -> int:
        found: int = fail(value)
        return found

    return call


def encode_by(fail: Any) -> Any:
    return lambda number: str(fail(number)).encode()


@pytest.mark.parametrize("kind", [NoProblems, Untrue, GeneratorExit, SystemExit])
@pytest.mark.parametrize("place", CALLED)
def test_whatever_an_exception_is_the_policy_decides(place: str, kind: type[BaseException]) -> None:
    def application(policy: Any) -> App:
        app = App("a", on_error=policy)
        CALLED[place](app.stream("in", key=str, value=int), failing(kind))
        return app

    def feed(driver: TopologyTestDriver) -> None:
        for time, (key, value) in enumerate([*RECORDS, ("c", 3)]):
            driver.pipe_input("in", key, value, time)

    with TopologyTestDriver(application(("dead_letter", "dlq"))) as driver:
        feed(driver)
        letters = driver.read_output("dlq")
        assert driver.skipped() == len(letters) == (2 if place == "view" else 1)
        assert {dict(one.headers or ())["streamlet.topic"] for one in letters} == {b"in"}
    with (
        TopologyTestDriver(application("fail")) as driver,
        pytest.raises(ProcessingError, match=r"at in-0 offset [12], operator K"),
    ):
        feed(driver)


def test_ctrl_c_ends_a_function_under_every_policy() -> None:
    """The signal arrives in whatever function runs: it says nothing of the record."""

    def interrupted(number: int) -> int:
        raise KeyboardInterrupt

    app = App("a", on_error="skip")
    app.stream("in", key=str, value=int).map_values(interrupted).to("out")
    with TopologyTestDriver(app) as driver, pytest.raises(KeyboardInterrupt):
        driver.pipe_input("in", "a", 1)


def test_an_initializer_that_exits_is_a_wrong_topology() -> None:
    app = App("a")
    grouped = app.stream("in", key=str, value=int).group_by_key()
    with pytest.raises(TopologyError, match="SystemExit"):
        grouped.aggregate(lambda: sys.exit(0), leave, store="s")


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), ValueError()])
def test_a_close_that_exits_is_logged_and_ends_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    class Exits(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            """Take it."""

        def close(self) -> None:
            raise error

    app = App("a")
    app.stream("in", key=str, value=int).process(Exits)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", 1)
    assert "close() failed" in caplog.text
