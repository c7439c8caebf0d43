"""What a function gets is its own, and what it returned or yielded is as it was then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import streamlet as sl
from streamlet.testing import TopologyTestDriver
from tests.unit.dsl.test_own_rows import OF, WITHIN, Build, Document, R, rows, s, t, touch


class Point(msgspec.Struct):
    """A class whose objects can change."""

    n: int = 0


def refilled(make: Any = dict) -> Any:
    buffer: Any = make()

    def fill(value: Document) -> Any:
        if isinstance(buffer, dict):
            buffer.clear()
            buffer.update(value)
        else:
            buffer.n = value["n"]
        return buffer

    return fill


def pair_of(function: Any) -> Any:
    return lambda key, value: (key, function(value))


def each(function: Any) -> Any:
    return lambda batch: list(map(function, batch.values))


def first_by(function: Any) -> Any:
    return lambda first, last: function(first)


def last_by(function: Any) -> Any:
    return lambda first, last: function(last)


def merging() -> Any:
    """What a function has returned, it changes with the next record of the key."""
    seen: dict[str, Document] = {}

    def merge(value: Document) -> Document:
        found = seen.setdefault("a", value)
        found.update(value)
        return found

    return merge


def yielding(value: Document) -> Iterator[Document]:
    for n in (value["n"], -value["n"]):
        value["n"] = n
        yield value


def forwarding(record: Any, context: Any) -> None:
    for n in (record.value["n"], -record.value["n"]):
        record.value["n"] = n
        context.forward(record)


def in_state(record: Any, state: Any) -> Any:
    state["last"] = record.value
    yield state["last"]
    state["last"]["n"] *= -1
    yield state["last"]
    state["last"] = {}


class Ticking(sl.Processor[str, Document, str, Document]):
    """Forwards one document from a punctuator, again and again."""

    def init(self, context: sl.ProcessorContext[str, Document]) -> None:
        self.kept: Document = {"n": 0}
        context.schedule(1, "stream_time", self.tick)

    def process(self, record: sl.Record[str, Document]) -> None:
        self.kept["n"] = record.value["n"]

    def tick(self, time: int) -> Iterator[tuple[str, Document]]:
        for sign in (1, -1):
            self.kept["n"] *= sign
            yield "a", self.kept


async def later(value: Document) -> Document:
    return value


ONCE, BOTH = [1, 2, 3], [1, -1, 2, -2, 3, -3]
KEPT: Document = {}


def in_one(value: Document) -> Document:
    KEPT.update(value)
    return {"n": KEPT["n"], "kept": KEPT}


RESULTS: dict[str, tuple[Build, list[int]]] = {
    "map_values": (lambda app: s(app).map_values(refilled(), value=dict), ONCE),
    "map_values, an earlier object": (lambda app: s(app).map_values(merging(), value=dict), ONCE),
    "map_values, inside": (
        lambda app: (
            s(app).map_values(in_one, value=dict).map_values(lambda v: v["kept"], value=dict)
        ),
        ONCE,
    ),
    "map_values, a struct": (
        lambda app: (
            s(app)
            .map_values(refilled(Point), value=Point)
            .map_values(lambda p: {"n": p.n}, value=dict)
        ),
        ONCE,
    ),
    "map_values, of no known type": (
        lambda app: s(app).map_values(refilled(Point)).map_values(lambda p: {"n": p.n}, value=dict),
        ONCE,
    ),
    "map": (lambda app: s(app).map(pair_of(refilled()), **OF), ONCE),
    "flat_map_values": (lambda app: s(app).flat_map_values(yielding, value=dict), BOTH),
    "flat_map_values, a list": (
        lambda app: (
            s(app)
            .flat_map_values(lambda v: [v, v], value=dict)
            .map_values(lambda v: {"n": touch(v)["n"] - 1}, value=dict)
        ),
        [1, 1, 2, 2, 3, 3],
    ),
    "flat_map": (
        lambda app: s(app).flat_map(lambda k, v: ((k, one) for one in yielding(v)), **OF),
        BOTH,
    ),
    "process": (
        lambda app: s(app).process(lambda r: map(r.with_value, yielding(r.value)), **OF),
        BOTH,
    ),
    "process, forward": (lambda app: s(app).process(forwarding, **OF), BOTH),
    "process_values": (
        lambda app: s(app).process_values(lambda r: yielding(r.value), value=dict),
        BOTH,
    ),
    "state function": (lambda app: s(app).process_values(in_state, value=dict), BOTH),
    "map_batches": (
        lambda app: s(app).map_batches(each(refilled()), value=dict, max_records=1),
        ONCE,
    ),
    "map_values_async": (lambda app: s(app).map_values_async(later, value=dict), ONCE),
    "join": (
        lambda app: s(app).left_join(t(app), first_by(refilled()), value=dict),
        ONCE,
    ),
    "join of streams": (
        lambda app: s(app).join(app.stream("t", **OF), first_by(refilled()), **WITHIN),
        ONCE,
    ),
    "table map_values": (
        lambda app: app.table("s", **OF).map_values(refilled(), value=dict).to_stream(),
        ONCE,
    ),
    "table map_values, kept": (
        lambda app: app.table("s", **OF).map_values(refilled(), value=dict, store="m").to_stream(),
        ONCE,
    ),
    "reduce": (
        lambda app: rows(app).reduce(last_by(refilled())).to_stream(),
        ONCE,
    ),
    "select_key": (
        lambda app: (
            s(app).select_key(last_by(refilled()), key=dict).map(lambda k, v: ("a", k), **OF)
        ),
        ONCE,
    ),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("size", [1, 3])
def test_what_a_function_has_returned_is_as_it_was_then(name: str, size: int) -> None:
    KEPT.clear()
    build, wanted = RESULTS[name]
    app = sl.App("a")
    build(app).to("out", **OF)
    fed = [("a", {"n": n}) for n in (1, 2, 3)]
    with TopologyTestDriver(app) as driver:
        if name.startswith("join"):
            driver.pipe_input("t", "a", R, 0)
        for start in range(0, 3, size):
            driver.pipe_inputs("s", fed[start : start + size], 1)
        assert [one.value["n"] for one in driver.read_output("out")] == wanted


def test_what_a_punctuator_yields_is_as_it_was_then() -> None:
    app = sl.App("a")
    s(app).process(Ticking, **OF).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("s", "a", {"n": 3}, 1)
        driver.pipe_input("s", "a", {"n": 3}, 5)
        assert [one.value["n"] for one in driver.read_output("out")][-2:] == [3, -3]


BRANCHES: dict[str, Callable[[Any], Any]] = {
    "map_values": lambda one: one.map_values(touch, value=dict),
    "filter": lambda one: one.filter(lambda k, v: bool(touch(v))),
    "peek": lambda one: one.peek(lambda k, v: touch(v)),
    "select_key": lambda one: one.select_key(lambda k, v: touch(v) and k, key=str),
    "process": lambda one: one.process(lambda r: r.with_value(touch(r.value)), **OF),
    "branch": lambda one: (
        one.split(name="b").branch(lambda k, v: bool(touch(v)), name="x").no_default_branch()["bx"]
    ),
    "topic": lambda one: one,
}


@pytest.mark.parametrize("name", BRANCHES)
@pytest.mark.parametrize("first", [True, False])
def test_branches_do_not_see_what_another_one_makes_of_a_value(name: str, first: bool) -> None:
    app = sl.App("a")
    above = s(app)
    if not first:
        above.to_table(store="before")
    if name == "topic":
        above.to(lambda k, v: "out" if touch(v) else "", **OF)
    else:
        BRANCHES[name](above).to("out")
    above.to("copy")
    above.to_table(store="after")
    other = above.map_values(lambda v: {"n": v["n"]}, value=dict)
    other.to("other", partitioner=lambda k, v, n: touch(v)["n"] * 0)
    other.to("last")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("s", [("a", {"n": 1}), ("a", {"n": 5})])
        assert [one.value["n"] for one in driver.read_output("out")] == [2, 6]
        for topic in ("copy", "other", "last"):
            assert [one.value["n"] for one in driver.read_output(topic)] == [1, 5], topic
        for store in ("after",) if first else ("before", "after"):
            assert driver.store(store).get("a") == {"n": 5}


def test_a_function_of_times_does_not_change_the_record() -> None:
    app = sl.App("a")
    app.table("t", **OF, store="t", timestamp=lambda k, v, time: touch(v)["n"]).to_stream().to(
        "out"
    )
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "a", {"n": 1})
        assert driver.store("t").get("a") == {"n": 1}
        assert [(one.value, one.timestamp) for one in driver.read_output("out")] == [({"n": 1}, 2)]
