"""Values of the right type that have no bytes: the policy answers them at their record.

Each operator that keeps values is given good records and a bad one between them, under each policy.
Results and stores must be those of a run without the bad record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError
from streamlet.testing import TopologyTestDriver


@dataclass
class Parcel:
    pieces: int
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Label:
    text: str
    weight: float = 0.0


def refusing(value: str) -> bytes:
    if value == "bad":
        raise RuntimeError("a serde of the user's")
    return value.encode()


def no_bytes(value: str) -> Any:
    return None if value == "bad" else value.encode()


#: The serde, two good values, and one that it takes by its type and cannot write.
VALUES: dict[str, tuple[Any, Any, Any, Any]] = {
    "int": (int, 1, 2, 2**63),
    "int32": (sl.serdes.int32(), 1, 2, 2**31),
    "float32": (sl.serdes.float32(), 1.0, 2.0, 1e300),
    "str": (str, "one", "two", "\ud83d"),
    "set in a dict": (dict, {"n": 1}, {"n": 2}, {"n": {1}}),
    "surrogate in a dict": (dict, {"n": "1"}, {"n": "2"}, {"n": "\udc00"}),
    "object in a dict": (dict, {"n": "1"}, {"n": "2"}, {"n": object()}),
    "list": (list[str], ["1"], ["2"], ["\ud83d"]),
    "dataclass": (Parcel, Parcel(1), Parcel(2), Parcel(3, {"n": "\ud83d"})),
    "frozen": (Label, Label("one"), Label("two"), Label("\ud83d")),
    "custom": ((refusing, bytes.decode), "one", "two", "bad"),
    "custom, None": ((no_bytes, bytes.decode), "one", "two", "bad"),
}

Build = Callable[[sl.KStream[str, Any], sl.App, Any], Any]
OPERATORS: dict[str, Build] = {}


def operator(build: Build) -> Build:
    OPERATORS[build.__name__] = build
    return build


def latest(_so_far: Any, value: Any) -> Any:
    return value


def aggregated(_key: Any, value: Any, _so_far: Any) -> Any:
    return value


def merged(_key: Any, _one: Any, other: Any) -> Any:
    return other


@operator
def reduce(stream: Any, app: sl.App, kind: Any) -> Any:
    return stream.group_by_key().reduce(latest, store="s")


@operator
def aggregate(stream: Any, app: sl.App, kind: Any) -> Any:
    return stream.group_by_key().aggregate(lambda: None, aggregated, value=kind, store="s")


@operator
def aggregate_on_commit(stream: Any, app: sl.App, kind: Any) -> Any:
    grouped = stream.group_by_key()
    return grouped.aggregate(lambda: None, aggregated, value=kind, store="s", emit="on_commit")


@operator
def aggregate_downstream(stream: Any, app: sl.App, kind: Any) -> Any:
    table = stream.group_by_key().aggregate(lambda: None, aggregated, value=kind, store="s")
    return table.filter(lambda k, v: True, store="t")


@operator
def regrouped(stream: Any, app: sl.App, kind: Any) -> Any:
    table = stream.to_table(store="s")
    grouped = table.group_by(lambda k, v: ("all", v), key=str, value=kind)
    return grouped.reduce(latest, latest, store="t")


def windowed(windows: Any) -> Build:
    def build(stream: Any, app: sl.App, kind: Any) -> Any:
        return stream.group_by_key().windowed_by(windows).reduce(latest, store="s")

    return build


OPERATORS["tumbling"] = windowed(sl.tumbling("1m"))
OPERATORS["hopping"] = windowed(sl.hopping("1m", advance="20s"))
OPERATORS["sliding"] = windowed(sl.sliding("1m", grace="1h"))
OPERATORS["session"] = windowed(sl.session("1m", grace="1h"))
OPERATORS["unlimited"] = windowed(sl.unlimited())


@operator
def session_aggregate(stream: Any, app: sl.App, kind: Any) -> Any:
    grouped = stream.group_by_key().windowed_by(sl.session("1m"))
    return grouped.aggregate(lambda: None, aggregated, merged, value=kind, store="s")


@operator
def tumbling_on_commit(stream: Any, app: sl.App, kind: Any) -> Any:
    grouped = stream.group_by_key().windowed_by(sl.tumbling("1m"), emit="on_commit")
    return grouped.reduce(latest, store="s")


@operator
def sliding_on_commit(stream: Any, app: sl.App, kind: Any) -> Any:
    windows = sl.sliding("1m", grace="1h")
    return stream.group_by_key().windowed_by(windows, emit="on_commit").reduce(latest, store="s")


@operator
def tumbling_final(stream: Any, app: sl.App, kind: Any) -> Any:
    grouped = stream.group_by_key().windowed_by(sl.tumbling("1m"), emit="final")
    return grouped.reduce(latest, store="s")


@operator
def session_final(stream: Any, app: sl.App, kind: Any) -> Any:
    grouped = stream.group_by_key().windowed_by(sl.session("1m"), emit="final")
    return grouped.reduce(latest, store="s")


@operator
def cogroup(stream: Any, app: sl.App, kind: Any) -> Any:
    other = app.stream("more", key=str, value=int).group_by_key()
    both = stream.group_by_key().cogroup(aggregated).cogroup(other, lambda k, v, a: a)
    return both.aggregate(lambda: None, value=kind, store="s")


@operator
def cogroup_windowed(stream: Any, app: sl.App, kind: Any) -> Any:
    both = stream.group_by_key().cogroup(aggregated).windowed_by(sl.tumbling("1m"))
    return both.aggregate(lambda: None, value=kind, store="s")


@operator
def to_table(stream: Any, app: sl.App, kind: Any) -> Any:
    return stream.to_table(store="s")


@operator
def to_table_with_olds(stream: Any, app: sl.App, kind: Any) -> Any:
    return stream.to_table(store="s").filter(lambda k, v: True, store="t")


@operator
def versioned_table(stream: Any, app: sl.App, kind: Any) -> Any:
    return stream.to_table(store=sl.Materialized("s", history="1h"))


@operator
def table_map_values(stream: Any, app: sl.App, kind: Any) -> Any:
    """The table's own values are numbers, those of the one behind it are not."""
    table = app.table("numbers", key=str, value=int)
    return table.map_values(chosen(stream), value=kind, store="s")


@operator
def table_join(stream: Any, app: sl.App, kind: Any) -> Any:
    numbers = app.table("numbers", key=str, value=int)
    make = chosen(stream)
    return numbers.join(numbers, lambda a, b: make(a), value=kind, store="s")


@operator
def foreign_key_join(stream: Any, app: sl.App, kind: Any) -> Any:
    left, right = stream.to_table(store="s"), app.table("rows", key=str, value=str)
    return left.left_join(right, lambda a, b: a, foreign_key=lambda v: "row", value=kind, store="t")


@operator
def foreign_key_join_right(stream: Any, app: sl.App, kind: Any) -> Any:
    left, right = app.table("rows", key=str, value=str), stream.to_table(store="s")
    return left.join(right, lambda a, b: b, foreign_key=lambda v: v, value=kind, store="t")


@operator
def suppress_time(stream: Any, app: sl.App, kind: Any) -> Any:
    make, numbers = chosen(stream), app.table("numbers", key=str, value=int)
    return numbers.map_values(make, value=kind).suppress(sl.until_time_limit("1m"))


@operator
def suppress_bytes(stream: Any, app: sl.App, kind: Any) -> Any:
    make, numbers = chosen(stream), app.table("numbers", key=str, value=int)
    until = sl.until_time_limit("1m", max_bytes=1_000)
    return numbers.map_values(make, value=kind).suppress(until)


@operator
def suppress_windows(stream: Any, app: sl.App, kind: Any) -> Any:
    numbers = app.stream("numbers", key=str, value=int).group_by_key()
    counted = numbers.windowed_by(sl.tumbling("1m")).reduce(latest, store="s")
    closing = counted.map_values(chosen(stream), value=kind)
    return closing.suppress(sl.until_window_closes())


def stream_join(kind_of: str) -> Build:
    def build(stream: Any, app: sl.App, kind: Any) -> Any:
        others = app.stream("others", key=str, value=str)
        join = getattr(stream, f"{kind_of}join")
        return join(others, lambda a, b: a, within=sl.join_windows("1m"), value=kind, store="s")

    return build


for word in ("", "left_", "outer_"):
    OPERATORS[f"stream {word}join"] = stream_join(word)


@operator
def stream_join_right(stream: Any, app: sl.App, kind: Any) -> Any:
    others = app.stream("others", key=str, value=str)
    within = sl.join_windows("1m")
    return others.outer_join(stream, lambda a, b: b, within=within, value=kind, store="s")


@operator
def self_join(stream: Any, app: sl.App, kind: Any) -> Any:
    within = sl.join_windows("1m")
    return stream.join(stream, lambda a, b: b, within=within, value=kind, store="s")


@operator
def join_with_grace(stream: Any, app: sl.App, kind: Any) -> Any:
    table = app.table("rows", key=str, value=str, store=sl.Materialized("r", history="1h"))
    return stream.join(table, lambda a, b: a, grace="1m", value=kind, store="s")


def kept(make: Callable[..., Any], put: Callable[..., None], **more: Any) -> Build:
    def build(stream: Any, app: sl.App, kind: Any) -> Any:
        def keep(record: sl.Record[str, Any], context: Any) -> Any:
            put(context.store("s"), record)
            return record

        store = make("s", key=str, value=kind, **more)
        return stream.process_values(keep, stores=[store], value=kind)

    return build


OPERATORS["key_value_store"] = kept(sl.key_value_store, lambda s, r: s.put(r.key, r.value))
OPERATORS["put_all"] = kept(sl.key_value_store, lambda s, r: s.put_all([(r.key, r.value)]))
OPERATORS["timestamped_store"] = kept(
    sl.timestamped_store, lambda s, r: s.put(r.key, r.value, r.timestamp)
)
OPERATORS["versioned_store"] = kept(
    sl.versioned_store, lambda s, r: s.put(r.key, r.value, r.timestamp), history="1h"
)
OPERATORS["window_store"] = kept(
    sl.window_store,
    lambda s, r: s.put(r.key, r.value, r.timestamp),
    retention="1h",
    size="1m",
)
OPERATORS["session_store"] = kept(
    sl.session_store,
    lambda s, r: s.put(sl.Windowed(r.key, r.timestamp, r.timestamp), r.value),
    retention="1h",
)


@operator
def repartitioned(stream: Any, app: sl.App, kind: Any) -> Any:
    return stream.repartition(name="again").to_table(store="s")


def chosen(stream: Any) -> Callable[[int], Any]:
    """The function from numbers to values that the stream was made with."""
    return stream._chosen  # type: ignore[no-any-return]


def application(name: str, build: Build, policy: Any) -> sl.App:
    kind, one, two, bad = VALUES[name]
    by_number = {1: one, 2: two, 13: bad}
    app = sl.App("bytes", on_error=policy)
    stream = app.stream("in", key=str, value=int).map_values(by_number.__getitem__, value=kind)
    stream._chosen = by_number.__getitem__  # type: ignore[attr-defined]
    out = build(stream, app, kind)
    stream.peek(lambda k, v: None)  # another branch looks at the values
    if isinstance(out, sl.KTable):
        out = out.to_stream()
    out.map(lambda k, v: ("k", repr(v)), key=str, value=str).to("out")
    return app


def played(app: sl.App, numbers: list[int]) -> tuple[Any, ...]:
    """What was written and kept; an input of several partitions of state is made first."""
    with TopologyTestDriver(app) as driver:
        topics = app.topology().source_topics_among(["rows", "others", "numbers"])
        if "rows" in topics:
            driver.pipe_inputs("rows", [("row", "k"), ("k", "k")], 0)
        if "others" in topics:
            driver.pipe_input("others", "k", "other", 0)
        source = "numbers" if "numbers" in topics else "in"
        driver.pipe_inputs(source, [("k", n) for n in numbers], 1_000)
        driver.pipe_inputs(source, [("k", n) for n in numbers], 2_000)
        driver.pipe_inputs(source, [("end", 1)], 10_000_000)
        records = [one for one in driver.read_output("out")]
        stores = {
            name: [(key, repr(value)) for key, value in part.state.stores[name].range()]
            for part in driver._parts
            for name in part.state.stores
        }
        letters = driver.read_output("dlq") if "dlq" in driver.produced_topic_names() else []
        return records, stores, driver.skipped(), [dict(one.headers) for one in letters]


#: A record fails once for each of two stores, or of two sides, that take it.
TWICE = ("self_join", "table_join")
MOST = ("int", "str", "set in a dict", "frozen", "custom")
FEW = ("reduce", "tumbling", "session", "to_table", "key_value_store", "suppress_time")
PAIRS = [
    pytest.param(operator, value, id=f"{operator}: {value}")
    for operator in OPERATORS
    for value in VALUES
    if value in MOST or operator in FEW
    # Of a batch that is written to a topic only the first document is looked at for sets.
    if (operator, value) != ("repartitioned", "set in a dict")
]


@pytest.mark.parametrize(("operator", "name"), PAIRS)
def test_a_value_without_bytes_is_one_for_the_policy(operator: str, name: str) -> None:
    build, times = OPERATORS[operator], 2 if operator in TWICE else 1
    clean = played(application(name, build, "skip"), [1, 2, 1])
    assert clean[2] == 0
    app = application(name, build, ("dead_letter", "dlq"))
    records, stores, skipped, letters = played(app, [1, 2, 13, 1])
    assert (skipped, len(letters)) == (2 * times, 2 * times)
    assert [one.value for one in records] == [one.value for one in clean[0]]
    assert stores == clean[1]
    assert letters[0]["streamlet.topic"] in (b"in", b"numbers")
    assert {one["streamlet.offset"] for one in letters} == {b"2", b"6"}


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_error_names_the_record(operator: str) -> None:
    with pytest.raises(ProcessingError, match=r"at (in|numbers)-0 offset 2, operator") as failed:
        played(application("int", OPERATORS[operator], "fail"), [1, 2, 13, 1])
    assert failed.value.offset == 2


@pytest.mark.parametrize("make", ["table", "global_table"])
def test_a_row_that_can_be_read_and_not_written_is_one_for_the_policy(make: str) -> None:
    def application(policy: Any) -> sl.App:
        app = sl.App("bytes", on_error=policy)
        getattr(app, make)("rows", key=str, value=(refusing, bytes.decode), store="s")
        if make == "global_table":
            app.stream("in", key=str, value=str).to("out")
        return app

    rows = [(b"a", b"one"), (b"b", b"bad"), (b"c", b"two")]
    with TopologyTestDriver(application(("dead_letter", "dlq"))) as driver:
        for key, value in rows:
            driver.pipe_bytes("rows", key, value)
        assert list(driver.store("s").range()) == [("a", "one"), ("c", "two")]
        (letter,) = driver.read_output("dlq")
        assert (letter.key, letter.value) == (b"b", b"bad")
        assert dict(letter.headers or ())["streamlet.offset"] == b"1"
    with TopologyTestDriver(application("fail")) as driver:
        driver.pipe_bytes("rows", *rows[0])
        with pytest.raises(ProcessingError, match="at rows-0 offset 1, operator"):
            driver.pipe_bytes("rows", *rows[1])
