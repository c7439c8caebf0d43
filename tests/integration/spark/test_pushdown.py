"""What Spark leaves out is what Python would have left out, and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.expressions import Binary, Expression, Unary, compiled
from streamlet.errors import SerdeError
from streamlet.spark import to_dataframe
from streamlet.spark.plan.pushdown import dropped
from streamlet.testing import TopologyTestDriver
from tests.integration.spark.test_tasks import Files, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Flight:
    carrier: str
    delay: int | None
    distance: float
    late: bool | None = None


late = sl.App("late")
(
    late.stream("flights", key=str, value=Flight)
    .filter((sl.col("delay") > 0) & (sl.key() != "nobody"))
    .group_by(sl.col("carrier"))
    .aggregate(sl.sum_(sl.col("delay")), store="late")
    .to_stream()
    .to("late")
)

SMALL = st.integers(-3, 3)
INTEGERS = SMALL | st.integers(-(2**63), 2**63 - 1) | st.integers(2**53 - 2, 2**53 + 2)
FLOATS = st.floats(allow_nan=True) | SMALL.map(float)
TEXTS = st.sampled_from(["", "a", "B", "ä", "\U0001f600", 'q"', "null", "delay", "\ufffd"])
CONSTANTS: dict[str, Any] = {"int": INTEGERS, "float": FLOATS, "str": TEXTS, "bool": st.booleans()}


def operand(kind: str) -> Any:
    column = {
        "int": sl.col("delay"),
        "float": sl.col("distance"),
        "str": sl.col("carrier"),
        "bool": sl.col("late"),
    }[kind]
    leaf = st.just(column) | st.builds(sl.lit, CONSTANTS[kind])
    if kind == "str":
        return leaf | st.just(sl.key())
    if kind == "bool":
        return leaf
    calculate = st.sampled_from("+-*/")
    return leaf | st.builds(Binary, calculate, leaf, leaf)


COMPARISON = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
PAIRS = [("int", "int"), ("int", "float"), ("float", "float"), ("str", "str"), ("bool", "bool")]
TEST = st.sampled_from(PAIRS).flatmap(
    lambda pair: st.builds(Binary, COMPARISON, operand(pair[0]), operand(pair[1]))
)
NULL = st.sampled_from(["int", "str", "bool"]).flatmap(
    lambda kind: st.builds(Unary, st.sampled_from(["is null", "is not null"]), operand(kind))
)
PREDICATE = st.recursive(
    TEST | NULL,
    lambda inner: (
        st.builds(Binary, st.sampled_from("&|"), inner, inner)
        | st.builds(Unary, st.just("not"), inner)
    ),
    max_leaves=3,
)

FLIGHT = st.builds(
    Flight,
    TEXTS,
    st.none() | INTEGERS,
    st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.booleans(),
)
#: What is no flight, or is one in another spelling.
ODD = st.sampled_from(
    [
        None,
        b"",
        b"null",
        b"\xff",
        b'{"carrier":"a","delay":1,"distance":1.5,"late":null} x',
        b'{"carrier":"a","delay":1,"delay":-1,"distance":1.5}',
        b'{"carrier":"a","delay":"1","distance":1.5,"late":true}',
        b'{"carrier":"a","delay":-0,"distance":-0,"late":true}',
        b'{"carrier":"a","delay":1,"distance":1e999,"late":true}',
        b'{"carrier":"\\u0061","delay":01,"distance":1,"late":true}',
        b'{ "late" : false ,"distance":2, "delay":\t-1,"carrier":"\xc3\xa4" }',
        b'{"carrier":"a","delay":1,"distance":1}',
        b"{'carrier':'a','delay':-1,'distance':1,'late':true}",
        b'{"carrier":"a\xff","delay":-1,"distance":1,"late":true}',
        b'{"carrier":"a","delay":99999999999999999999,"distance":1,"late":true}',
    ]
)
RECORD = st.tuples(
    st.sampled_from([None, b"", b"a", "ä".encode(), b"\xff"]),
    ODD | FLIGHT.map(msgspec.json.encode),
)


def condition(predicate: Expression) -> Any:
    """What Spark is sure to drop; None where it is sure of nothing."""
    app = sl.App("one")
    app.stream("flights", key=str, value=Flight).filter(predicate).to("out")
    (part,) = app.topology().subtopologies
    return dropped(part, part.sources[0])


def kept_by_python(predicate: Expression, key: bytes | None, value: bytes | None) -> bool:
    """Also what it fails on: that must get there."""
    try:
        (read_key,) = sl.serde(str).decode_column([key])
        (read_value,) = sl.serde(Flight).decode_column([value])
        return bool(compiled(predicate, Flight)(read_key, read_value))
    except (SerdeError, ArithmeticError):
        return True
    except Exception as error:
        if type(error).__name__ == "ColumnError":
            return True
        raise


@given(st.lists(PREDICATE, min_size=12, max_size=12), st.lists(RECORD, min_size=30, max_size=30))
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_spark_drops_nothing_that_python_keeps(
    spark: SparkSession, predicates: list[Expression], records: list[tuple[Any, Any]]
) -> None:
    """Over nulls, NaN, huge numbers, division, and records in every spelling."""
    conditions = [(one, condition(one)) for one in predicates]
    sure = [(one, column) for one, column in conditions if column is not None]
    rows = [(n, key, value, "flights") for n, (key, value) in enumerate(records)]
    frame = spark.createDataFrame(rows, "n int, key binary, value binary, topic string")
    columns = [column.alias(f"d{i}") for i, (_, column) in enumerate(sure)]
    for row in frame.select("n", *columns).collect():
        key, value = records[row.n]
        for i, (one, _) in enumerate(sure):
            if row[f"d{i}"]:
                assert not kept_by_python(one, key, value), (one, key, value)


SURE = [
    (sl.col("delay") > 5, True),
    (sl.col("delay") + 1 > 6, True),
    (sl.col("distance") > 5.5, True),
    (sl.col("distance") > 6, True),
    (sl.col("carrier") == "BB", True),
    (sl.key() == "BB", True),
    ((sl.col("delay") > 5) | sl.col("late"), True),
    (~(sl.col("delay").is_not_null()), True),
    (sl.col("delay") / 2 > 5, False),
    (sl.col("distance") * 2 > 50.0, False),
    (sl.col("delay") > 5.5, False),
    (sl.col("delay") > 2**70, False),
    (sl.col("distance") > math.nan, False),
]


def test_spark_drops_what_it_can_be_sure_of_and_only_that(spark: SparkSession) -> None:
    value = msgspec.json.encode(Flight("AA", 5, 5.5, False))
    rows = [(b"AA", value, "flights"), (b"AA", value, "another")]
    frame = spark.createDataFrame(rows, "key binary, value binary, topic string")
    conditions = [condition(one) for one, _ in SURE]
    assert [one is not None for one in conditions] == [sure for _, sure in SURE]
    columns = [one.alias(f"d{i}") for i, one in enumerate(conditions) if one is not None]
    ours, other = frame.select(*columns).collect()
    assert all(ours)
    assert not any(other)


def test_an_application_with_a_pushed_filter_ends_as_in_the_test_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    flights = [
        Flight(f"C{n % 3}", None if n % 4 == 0 else n % 7 - 3, n / 3, n % 2 == 0) for n in range(60)
    ]
    files = Files(spark, tmp_path / "flights", "flights", 2)
    pairs = [(b"k%d" % n, msgspec.json.encode(one)) for n, one in enumerate(flights)]
    for some in (pairs[:25], pairs[25:]):
        files.write(some)
    frame = to_dataframe(late, spark, source=files.read(), partitions={"flights": 2})
    plan = frame._jdf.queryExecution().logical().toString()
    assert "RLIKE" in plan.upper()  # it was pushed
    with TopologyTestDriver(late) as driver:
        for key, value in pairs:
            driver.pipe_bytes("flights", key, value, 1_000)
        wanted = {record.key: record.value for record in driver.read_output("late")}
    rows = run(frame, tmp_path / "checkpoint")
    assert {r.key.decode(): int.from_bytes(r.value, "big", signed=True) for r in rows} == wanted
