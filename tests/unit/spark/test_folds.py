"""Which aggregations Spark SQL may do, and what is handed to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.aggregates import functions
from streamlet.errors import ConfigError, ProcessingError, StateError, TopologyError
from streamlet.kafka.ports import PartitionBatch
from streamlet.spark.plan.folds import Unfit, folds
from streamlet.spark.plan.plan import SparkPlan, plan
from streamlet.spark.plan.prepare import QueryRequest, _folds
from streamlet.spark.plan.shortcuts import shortcuts
from streamlet.spark.rows import folding
from streamlet.spark.rows.folding import Folder
from streamlet.spark.rows.partial import Partial
from tests.shares import share_of

pytest.importorskip("numpy")


@dataclass(frozen=True)
class Flight:
    delay: int | None
    distance: float = 0.0
    tail: str = ""
    late: bool = False


@dataclass(frozen=True)
class Coded(Flight):
    raw: bytes = b""


DELAY, TAIL = sl.col("delay"), sl.col("tail")
ALL = {
    "count": sl.count(),
    "sum": sl.sum_(DELAY),
    "late": sl.sum_(sl.col("late")),
    "min": sl.min_(DELAY),
    "max": sl.max_(TAIL),
}

counting = sl.App("sql-counting")
(
    counting.stream("flights", key=str, value=Flight)
    .group_by(sl.col("tail"))
    .aggregate(ALL, store="all")
    .to_stream()
    .to("out")
)


def to_one(flight: Flight) -> Flight:
    return Flight(10 // flight.delay) if flight.delay != 7 else Flight(1.5)  # type: ignore[arg-type]


dividing = sl.App("sql-dividing")
skipping = sl.App("sql-skipping", on_error="skip")
for app in (dividing, skipping):
    stream = app.stream("flights", key=str, value=Flight).map_values(to_one)
    stream.group_by_key().aggregate(sl.sum_(DELAY), store="sums").to_stream().to("out")


def planned(name: str, app: sl.App) -> SparkPlan:
    return plan(f"{__name__}:{name}", app.topology(), {"flights": 2})


def shape(build: Callable[[Any], Any], **how: Any) -> sl.App:
    app = sl.App("shape", **how)
    build(app.stream("flights", key=str, value=Coded))
    return app


def counted(stream: Any) -> Any:
    return stream.group_by_key().count(store="counts").to_stream()


def twice(stream: Any) -> None:
    counted(stream).to("out")
    stream.group_by(TAIL).aggregate(sl.sum_(DELAY)).to_stream().to("out")


def around(stream: Any) -> None:
    counted(stream).to("out")
    stream.filter(DELAY > 0).to("delayed")


def through_a_topic(stream: Any) -> None:
    counted(stream).repartition(name="again").to("out")


def again(app_stream: Any) -> None:
    counted(app_stream).to("flights", feedback=True)


def by_record(app_stream: Any) -> None:
    app_stream.to(lambda key, flight: flight.carrier)
    counted(app_stream).to("out")


UNFIT = [
    (lambda s: s.filter(DELAY > 0).to("out"), "there is no aggregation"),
    (lambda s: s.group_by_key().reduce(lambda a, b: b).to_stream().to("out"), "REDUCE.* keeps"),
    (
        lambda s: s.group_by_key().aggregate(int, lambda k, v, n: n + 1).to_stream().to("out"),
        "AGGREGATE-.* is given as a function",
    ),
    (lambda s: s.group_by_key().aggregate(sl.sum_(sl.col("distance"))), "a sum of float"),
    (lambda s: s.group_by_key().aggregate(sl.max_(sl.col("distance"))), "a max of float"),
    (lambda s: s.group_by_key().aggregate(sl.sum_(DELAY / 2)), "a sum of float"),
    (lambda s: s.group_by_key().aggregate(sl.sum_(DELAY), value=float), "its int as float"),
    (lambda s: s.group_by_key().aggregate(sl.sum_(DELAY), value=sl.serdes.int32()), "int as int32"),
    (lambda s: counted(s).map_values(str).to("out"), "MAPVALUES-.* sees every update"),
    (lambda s: counted(s).filter(lambda k, n: n > 1).to("out"), "FILTER-.* sees every update"),
    (lambda s: counted(s).to("out", partitioner=lambda k, v, n: 0), "chooses partitions"),
    (lambda s: counted(s).to("out", key=(str.encode, bytes.decode)), "writes keys as custom"),
    (
        lambda s: s.group_by_key().aggregate({"raw": sl.max_(sl.col("raw"))}, value=dict),
        "bytes in a dict",
    ),
    (twice, "several nodes write out"),
    (around, "writes delayed and is no aggregation's result"),
    (through_a_topic, "sees every update"),
    (again, "the application reads flights"),
    (
        lambda s: counted(s).to(lambda k, n: k),
        "SINK-.*-topic behind KSTREAM-AGG.* sees every update",
    ),
    (by_record, "SINK-.* writes a topic that is chosen for each record"),
]


@pytest.mark.parametrize(("build", "message"), UNFIT)
def test_what_would_not_be_equal_is_unfit_and_says_why(build: Any, message: str) -> None:
    app = shape(build)
    with pytest.raises(Unfit, match=message):
        folds(app.topology(), app.policy)


def test_dead_letters_and_tables_are_unfit() -> None:
    app = shape(lambda s: counted(s).to("out"), on_error=("dead_letter", "letters"))
    with pytest.raises(Unfit, match="dead letters go to letters"):
        folds(app.topology(), app.policy)
    joining = sl.App("joining")
    table = joining.table("names", key=str, value=str)
    joined = joining.stream("flights", key=str, value=Flight).join(table, lambda f, name: f)
    counted(joined).to("out")
    with pytest.raises(Unfit, match="keeps state and is not count"):
        folds(joining.topology(), joining.policy)


def test_who_aggregates_follows_from_what_is_asked_for() -> None:
    def chosen(app: sl.App, *wish: Any) -> tuple[bool, str]:
        found, reason = _folds(app, QueryRequest(*wish))
        return bool(found), reason

    assert chosen(counting, "latest") == (True, "")
    assert chosen(counting, "latest", None, "sql") == (True, "")
    assert chosen(counting, "latest", None, "tasks") == (False, "the checkpoint was begun so")
    assert chosen(counting, "latest", "tasks") == (False, "so it was asked for")
    assert chosen(counting, "latest", "sql", "tasks") == (True, "")  # and the checkpoint refuses
    assert "output='latest' would let" in chosen(counting, "updates")[1]
    with pytest.raises(ConfigError, match="needs output='latest'"):
        chosen(counting, "updates", "sql")
    unfit = shape(around)
    assert "writes delayed" in chosen(unfit, "latest")[1]
    with pytest.raises(TopologyError, match=r"same result.*delayed.*aggregations='tasks' can"):
        chosen(unfit, "latest", "sql")


FLIGHT = st.builds(
    Flight,
    st.none() | st.integers(-3, 3) | st.integers(-(2**70), 2**70),
    st.just(0.0),
    st.sampled_from(["", "a", "ä", "\U0001f600"]),
    st.booleans(),
)
JOIN: dict[str, Callable[..., Any]] = {"count": sum, "sum": sum, "min": min, "max": max}


@given(st.lists(st.lists(st.tuples(st.sampled_from([b"x", b"y"]), FLIGHT))))
@settings(max_examples=share_of(60), deadline=None)
def test_partial_aggregates_add_up_to_what_the_operators_have(
    batches: list[list[tuple[bytes, Flight]]],
) -> None:
    """However records are dealt out; a None never counts."""
    (fold,) = folds(counting.topology(), counting.policy)
    parts: dict[bytes, list[list[Any]]] = defaultdict(list)
    times: dict[bytes, int] = {}
    for batch in batches:
        partial = Partial(fold)
        for begin in range(0, len(batch), 2):
            some = batch[begin : begin + 2]
            columns = [
                [] if slot.of is None else [slot.of(key, flight) for key, flight in some]
                for slot in fold
            ]
            stamps = [flight.tail.count("a") for _, flight in some]
            partial.add([key for key, _ in some], stamps, columns)
        for key, row in zip(partial.times, zip(*partial.columns(), strict=True), strict=True):
            parts[key].append(list(row))
            times[key] = max(times.get(key, 0), partial.times[key])
    first, step, _ = functions(ALL, str, Flight)
    wanted: dict[bytes, Any] = {}
    newest: dict[bytes, int] = {}
    for batch in batches:
        for key, flight in batch:
            wanted[key] = step(key, flight, wanted.get(key) or first())
            newest[key] = max(newest.get(key, 0), flight.tail.count("a"))
    found = {}
    for key, rows in parts.items():
        values = {}
        for slot, name, column in zip(fold, fold.names or (), zip(*rows, strict=True), strict=True):
            there = [one for one in column if one is not None]
            values[name] = JOIN[slot.kind](there) if there else None
        found[key] = values
    assert found == wanted
    assert times == newest


def raw(*delays: int | None, first: int = 0) -> PartitionBatch:
    values = [msgspec.json.encode(Flight(delay)) for delay in delays]
    count = len(values)
    return PartitionBatch(
        "flights", 1, range(first, first + count), [b"k"] * count, values, [5] * count
    )


def grouped(app: sl.App, build: Callable[[Any], Any]) -> None:
    build(app.stream("flights", key=str, value=Flight)).count(store="counts").to_stream().to("out")


SHORT = [
    (lambda s: s.group_by(TAIL), True),
    (lambda s: s.filter(DELAY > 0).group_by(TAIL), True),
    (lambda s: s.filter(lambda _, flight: flight.delay > 0).group_by(TAIL), False),
    (lambda s: s.group_by(lambda _, flight: flight.tail, key=str), False),
    (lambda s: s.map_values(lambda flight: flight).group_by(TAIL, key=str), False),
    (lambda s: s.group_by_key(), False),
]


@pytest.mark.parametrize(("build", "short"), SHORT)
def test_a_topic_is_left_out_where_only_expressions_stand_before_it(
    build: Any, short: bool
) -> None:
    app = sl.App("short")
    grouped(app, build)
    found = shortcuts(app.topology(), folds(app.topology(), app.policy))
    assert bool(found) == short


def test_records_are_the_same_without_the_way_through_a_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pyarrow")
    flights = [Flight(n - 3, n / 3, "abc"[n % 3] if n % 5 else "", n % 2 == 0) for n in range(20)]
    values = [None if n == 7 else msgspec.json.encode(one) for n, one in enumerate(flights)]
    batch = PartitionBatch("flights", 1, range(20), [b"k"] * 20, values, list(range(20)))
    found = []
    for way in (shortcuts, lambda *_: {}):
        monkeypatch.setattr(folding, "shortcuts", way)
        folder = Folder(planned("counting", counting))
        folder.take(batch)
        (rows,) = folder.rows(at_end=True)
        found.append(sorted(rows.to_pylist(), key=lambda row: row["key"]))
    assert found[0] == found[1]
    assert sum(row["f0_0"] for row in found[0]) == 19


def test_a_failing_record_ends_the_query_by_name_or_is_left_out() -> None:
    pytest.importorskip("pyarrow")
    failing = Folder(planned("dividing", dividing))
    with pytest.raises(ProcessingError, match="flights-1 offset 41"):
        failing.take(raw(1, 0, 2, first=40))
    careful = Folder(planned("skipping", skipping))
    careful.take(raw(1, 0, 2))
    (rows,) = careful.rows(at_end=True)
    (row,) = rows.to_pylist()
    assert (row["partition"], row["key"], row["f0_0"]) == (1, b"k", 15)


def test_what_is_not_of_its_declared_type_ends_the_query_under_every_policy() -> None:
    careful = Folder(planned("skipping", skipping))
    with pytest.raises(StateError, match="expected int, as declared, and got float"):
        careful.take(raw(1, 7))


def test_numbers_beyond_what_spark_can_have_are_refused() -> None:
    pytest.importorskip("pyarrow")
    for delay, fits in ((10**37, True), (10**38, False)):
        folder = Folder(planned("counting", counting))
        folder.take(raw(delay))
        if fits:
            (rows,) = folder.rows(at_end=True)
            assert int(rows.to_pylist()[0]["f0_1"]) == delay
        else:
            with pytest.raises(StateError, match="more than 38 digits"):
                list(folder.rows(at_end=True))
