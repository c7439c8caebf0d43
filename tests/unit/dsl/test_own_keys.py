"""Functions that change the keys they are given: records, rows and other results keep theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError
from streamlet.testing import TopologyTestDriver


@dataclass
class Place:
    """A key that can change, and is equal to one that has not."""

    region: str
    tags: list[str] = field(default_factory=list)


#: Types of keys, and how to make one.
KEYS: dict[str, tuple[Any, Callable[[], Any]]] = {
    "dict": (dict, lambda: {"region": "eu", "tags": []}),
    "list": (list[str], lambda: ["eu"]),
    "dataclass": (Place, lambda: Place("eu")),
}
WITHIN = sl.join_windows("1m")


def changed(key: Any) -> Any:
    """The key, which is another one then."""
    if type(key) is dict:
        key["tags"].append("seen")
        del key["region"]
    elif type(key) is list:
        key.append("seen")
    else:
        key.tags.append("seen")
    return key


def then(key: Any, result: Any) -> Any:
    """A result, after the key was changed."""
    changed(key)
    return result


Build = Callable[[Any, Any, sl.App], Any]


def same(table: Any) -> Any:
    return table.to_stream()


def unwindowed(table: Any, of: Any) -> Any:
    rows = table.to_stream().filter(lambda window, n: n is not None)
    return rows.select_key(lambda window, n: window.key, key=of)


def windows(stream: Any, of: Any, given: Any, **more: Any) -> Any:
    folded = stream.group_by_key().windowed_by(given)
    return unwindowed(folded.aggregate(int, lambda k, v, n: then(k, n + v), value=int, **more), of)


def processed(record: Any, context: Any) -> None:
    context.store("s").put(record.key, 1)
    context.forward(record)
    changed(record.key)


#: Operators that keep the key of their records.
KEEPING: dict[str, Build] = {
    "filter": lambda s, of, app: s.filter(lambda k, v: then(k, True)),
    "filter_not": lambda s, of, app: s.filter_not(lambda k, v: then(k, False)),
    "peek": lambda s, of, app: s.peek(lambda k, v: then(k, None)),
    "map_values": lambda s, of, app: s.map_values(lambda k, v: then(k, v), value=int),
    "with_context": lambda s, of, app: s.map_values(
        sl.with_context(lambda k, v, context: then(k, v)), value=int
    ),
    "flat_map_values": lambda s, of, app: s.flat_map_values(lambda k, v: then(k, [v]), value=int),
    "branch": lambda s, of, app: next(
        iter(s.split().branch(lambda k, v: then(k, True)).no_default_branch().values())
    ),
    "topic": lambda s, of, app: s.to(lambda k, v: then(k, "out")),
    "partitioner": lambda s, of, app: s.to("out", partitioner=lambda k, v, n: then(k, 0)),
    "process_values": lambda s, of, app: s.process_values(
        lambda record: then(record.key, record.value), value=int
    ),
    "state": lambda s, of, app: s.process_values(
        lambda record, state: then(record.key, record.value), value=int
    ),
    "timer": lambda s, of, app: s.process_values(
        lambda record, state: state.timer(at=record.timestamp),
        on_timer=lambda timer, state: then(timer.key, 1),
        value=int,
    ),
    "store": lambda s, of, app: s.process_values(
        processed, stores=[sl.key_value_store("s", key=of, value=int)], value=int
    ),
    "aggregate": lambda s, of, app: same(
        s.group_by_key().aggregate(int, lambda k, v, n: then(k, n + v), value=int)
    ),
    "cogroup": lambda s, of, app: same(
        s.group_by_key()
        .cogroup(lambda k, v, n: then(k, n + v))
        .cogroup(s.group_by_key(), lambda k, v, n: then(k, n + v))
        .aggregate(int, value=int)
    ),
    "hopping": lambda s, of, app: windows(s, of, sl.hopping("1m", advance="30s")),
    "sliding": lambda s, of, app: windows(s, of, sl.sliding("1m", grace="1m")),
    "session": lambda s, of, app: windows(
        s, of, sl.session("1m"), merger=lambda k, a, b: then(k, a + b)
    ),
    "table filter": lambda s, of, app: same(
        s.to_table().filter(lambda k, v: then(k, True), store="t")
    ),
    "table map_values": lambda s, of, app: same(
        s.to_table().map_values(lambda k, v: then(k, v), value=int, store="t")
    ),
    "view": lambda s, of, app: s.join(
        s.to_table().map_values(lambda k, v: then(k, v), value=int), lambda v, w: w, value=int
    ),
    "join": lambda s, of, app: s.join(s.to_table(), lambda k, v, w: then(k, w), value=int),
    "join of tables": lambda s, of, app: same(
        s.to_table().join(
            s.map_values(lambda v: v, value=int).to_table(),
            lambda k, v, w: then(k, w),
            value=int,
            store="t",
        )
    ),
    "foreign key": lambda s, of, app: same(
        s.to_table().left_join(
            app.table("other", key=str, value=int),
            lambda k, v, w: then(k, v),
            foreign_key=lambda k, v: then(k, "x"),
            value=int,
        )
    ),
    "global": lambda s, of, app: s.left_join(
        app.global_table("other", key=str, value=int),
        lambda k, v, w: then(k, v),
        on=lambda k, v: then(k, "x"),
        value=int,
    ),
    "streams": lambda s, of, app: s.join(s, lambda k, v, w: then(k, w), within=WITHIN, value=int),
    "streams, outer": lambda s, of, app: s.outer_join(
        s.filter(lambda k, v: True), lambda k, v, w: then(k, v or w), within=WITHIN, value=int
    ),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("operator", KEEPING)
def test_a_record_keeps_its_key(operator: str, kind: str) -> None:
    of, make = KEYS[kind]
    app = sl.App("a")
    found = KEEPING[operator](app.stream("in", key=of, value=int), of, app)
    if found is not None:
        found.to("out")
    with TopologyTestDriver(app) as driver:
        for number in (1, 2):
            driver.pipe_inputs("in", [(make(), number), (make(), number)], 1_000 * number)
        records = driver.read_output("out")
        assert records
        assert [one.key for one in records] == [make()] * len(records)
        stores = driver.get_all_state_stores().items()
        for name, store in ((name, store) for name, store in stores if hasattr(store, "range")):
            keys = [key.key if isinstance(key, sl.Windowed) else key for key, _ in store.range()]
            assert all(key == make() for key in keys if type(key) not in (str, bytes)), name


@pytest.mark.parametrize("kind", KEYS)
def test_results_of_one_record_do_not_share_their_key(kind: str) -> None:
    of, make = KEYS[kind]
    app = sl.App("a")
    twice = app.stream("in", key=of, value=int).flat_map_values(lambda v: [v, v], value=int)
    twice.map(lambda k, v: (changed(k), v), key=of, value=int).to("map")
    twice.select_key(lambda k, v: changed(k), key=of).to("select_key")
    twice.process(lambda record: (changed(record.key), 1), key=of, value=int).to("process")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", make(), 1)
        for topic in ("map", "select_key", "process"):
            assert [one.key for one in driver.read_output(topic)] == [changed(make())] * 2


def test_a_row_moves_out_of_the_group_that_a_function_changed_its_key_to() -> None:
    app = sl.App("a")
    rows = app.table("in", key=dict, value=int)
    groups = rows.group_by(lambda k, v: (k.pop("region"), v), key=str, value=int)
    groups.count().to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for number in (1, 2):
            driver.pipe_input("in", {"region": "eu"}, number)
        assert [one.value for one in driver.read_output("out")][-1] == 1


@pytest.mark.parametrize(
    ("of", "key", "other"), [(dict, {"a": 1}, {"a": True}), (float, 0.0, -0.0)]
)
def test_process_values_keeps_the_bytes_of_a_key(of: Any, key: Any, other: Any) -> None:
    """Python calls the other key equal, and it lies in another partition."""
    app = sl.App("a")
    app.stream("in", key=of, value=int).process_values(
        lambda record, context: context.forward(record.with_key(other)), value=int
    ).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", key, 1)
        assert [repr(one.key) for one in driver.read_output("out")] == [repr(key)]


def test_process_values_names_a_key_that_was_changed_and_forwarded() -> None:
    app = sl.App("a")

    def forwarded(record: Any, context: Any) -> None:
        changed(record.key)
        context.forward(record)

    app.stream("in", key=list[str], value=int).process_values(forwarded, value=int).to("out")
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(ProcessingError, match=r"process_values\(\) keeps the key \['eu'\], but"),
    ):
        driver.pipe_input("in", ["eu"], 1)
