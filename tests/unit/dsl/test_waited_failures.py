"""A record that waited and fails is the one that the policy is about, not the one it goes with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError
from streamlet.testing import TopologyTestDriver

Document = dict[str, Any]
OF: Any = {"key": str, "value": dict}
MINUTE = 60_000


def time_of(_key: str, value: Document, _time: int) -> int:
    """Those with ``n`` below 3 wait, and go with the one of 3, which goes with that of 4."""
    return {3: 5 * MINUTE, 4: 9 * MINUTE}.get(value["n"], value["n"])


class Flaky:
    """A joiner that changes what it gets, and fails at its first tries of what has ``n`` 1."""

    def __init__(self, failures: int) -> None:
        self.left, self.tries = failures, list[Document]()

    def __call__(self, value: Document | None, other: Document | None) -> Document:
        mine: Document = value or other or {}
        if mine["n"] == 1:
            self.tries.append({**mine, "l": list(mine["l"])})
            mine["l"].append("tried")
            if self.left:
                self.left -= 1
                raise ConnectionError("away")
        return {"n": mine["n"], "l": mine["l"]}


def streams(kind: str, **windows: Any) -> Callable[[sl.App, Flaky], Any]:
    def build(app: sl.App, joiner: Flaky) -> Any:
        left, right = app.stream("s", **OF, timestamp=time_of), app.stream("t", **OF)
        within = sl.join_windows("1m", **windows)
        if kind == "outer, right":
            return right.outer_join(left, joiner, within=within, value=dict)
        return getattr(left, f"{kind}_join")(right, joiner, within=within, value=dict)

    return build


def with_grace(kind: str) -> Callable[[sl.App, Flaky], Any]:
    def build(app: sl.App, joiner: Flaky) -> Any:
        rows = app.table("rows", **OF, store=sl.Materialized("rows", history="10m"))
        return getattr(app.stream("s", **OF, timestamp=time_of), kind)(
            rows, joiner, grace="1m", value=dict
        )

    return build


JOINS: dict[str, Callable[[sl.App, Flaky], Any]] = {
    "left": streams("left"),
    "outer": streams("outer"),
    "outer, right": streams("outer, right"),
    "grace": with_grace("join"),
    "grace, left": with_grace("left_join"),
}
#: The second one fails.
RECORDS = [(key, {"n": n, "l": []}) for n, key in enumerate("abcde")]


def piped(driver: TopologyTestDriver, how: str) -> None:
    for key, _ in RECORDS:
        driver.pipe_input("rows", key, {"n": 9, "l": []}, 0)
    records = [(key, {**value, "l": []}) for key, value in RECORDS]
    if how == "in a batch":
        driver.pipe_inputs("s", records)
        return
    for record in records:
        driver.pipe_input("s", *record, headers=[("of", record[0].encode())])


def built(name: str, joiner: Flaky, **rules: Any) -> TopologyTestDriver:
    app = sl.App("a", **rules)
    if "grace" not in name:
        app.stream("rows", **OF).foreach(lambda key, value: None)
    JOINS[name](app, joiner).to("out", **OF)
    return TopologyTestDriver(app)


def results(driver: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    return [(one.key, one.value, one.timestamp) for one in driver.read_output("out")]


TRIED = [
    ("a", {"n": 0, "l": []}, 0),
    ("b", {"n": 1, "l": ["tried"]}, 1),
    ("c", {"n": 2, "l": []}, 2),
    ("d", {"n": 3, "l": []}, 5 * MINUTE),
]


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("how", ["in a batch", "one by one"])
def test_it_is_tried_again_as_it_came_and_what_comes_with_it_goes_on(name: str, how: str) -> None:
    joiner = Flaky(2)
    with built(name, joiner, on_error=sl.Retry(3, backoff=0)) as driver:
        piped(driver, how)
        assert results(driver) == TRIED
        assert driver.skipped() == 0
    assert joiner.tries == [RECORDS[1][1]] * 3


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("how", ["in a batch", "one by one"])
def test_it_alone_is_left_out_and_is_the_dead_letter(name: str, how: str) -> None:
    joiner = Flaky(9)
    rule = sl.Retry(2, backoff=0, then=("dead_letter", "lost"))
    with built(name, joiner, on_error=rule) as driver:
        piped(driver, how)
        assert results(driver) == [TRIED[0], *TRIED[2:]]
        assert driver.skipped() == 1
        (letter,) = driver.read_output("lost", **OF)
    assert (letter.key, letter.value, letter.timestamp) == (*RECORDS[1], 1)
    headers = dict(letter.headers)
    assert (headers["streamlet.topic"], headers["streamlet.offset"]) == (b"s", b"3")
    assert headers.get("of") == (b"b" if "grace" in name and how == "one by one" else None)
    assert joiner.tries == [RECORDS[1][1]] * 2


@pytest.mark.parametrize("name", JOINS)
def test_handlers_are_asked_about_it(name: str) -> None:
    asked: list[Any] = []

    def handler(context: sl.ErrorContext, record: Any, error: BaseException) -> Any:
        asked.append((record.key, record.value, context.timestamp, context.offset, context.attempt))
        return "skip" if context.attempt == 2 else sl.Retry(3, backoff=0)

    with built(name, Flaky(9), processing_handler=handler) as driver:
        piped(driver, "one by one")
        assert results(driver) == [TRIED[0], *TRIED[2:]]
    assert asked == [(*RECORDS[1], 1, 3, 1), (*RECORDS[1], 1, 3, 2)]


@pytest.mark.parametrize("name", JOINS)
def test_the_error_names_it(name: str) -> None:
    message = r"a record that waited failed \(key 'b', time 1\), sent by the one at s-0 offset 3"
    with built(name, Flaky(1)) as driver, pytest.raises(ProcessingError, match=message):
        piped(driver, "one by one")


@pytest.mark.parametrize("name", ["grace", "grace, left"])
@pytest.mark.parametrize("tries", [3, 2])
def test_what_goes_without_a_record_is_tried_again_too(name: str, tries: int) -> None:
    joiner = Flaky(2)
    with built(name, joiner, on_error=sl.Retry(tries, backoff=0, then="skip")) as driver:
        for key, value in RECORDS[:3]:
            driver.pipe_input("rows", key, {"n": 9, "l": []}, 0)
            driver.pipe_input("s", key, {**value, "l": []})
        driver.advance_stream_time(5 * MINUTE)
        assert results(driver) == [one for one in TRIED[:3] if tries == 3 or one[0] != "b"]
    assert joiner.tries == [RECORDS[1][1]] * tries


@pytest.mark.parametrize("name", ["grace", "grace, left"])
def test_a_record_that_does_not_wait_is_tried_again_as_it_came(name: str) -> None:
    """It is later than the grace; what it leaves behind is as if it had never been there."""
    joiner = Flaky(2)
    with built(name, joiner, on_error=sl.Retry(3, backoff=0)) as driver:
        driver.pipe_input("rows", "b", {"n": 9, "l": []}, 0)
        driver.pipe_input("s", "d", {"n": 3, "l": []})
        driver.pipe_input("s", "b", {"n": 1, "l": []})
        assert results(driver) == [TRIED[1]]
    assert joiner.tries == [RECORDS[1][1]] * 3
