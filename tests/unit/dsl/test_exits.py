"""A user function that exits, or raises another ``BaseException``, fails on its record."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

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
