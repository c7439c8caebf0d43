"""Topics that are written by another partitioner: what streamlet writes beside them follows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.testing import TopologyTestDriver

COUNT = 4
CRC32 = "consistent_random"


def foreign_key(app: sl.App, by: Any) -> None:
    orders = app.table("orders", key=str, value=str)
    customers = app.table("customers", key=str, value=str, partitioner=by)
    joined = orders.join(customers, lambda o, c: c, foreign_key=lambda v: v, value=str)
    joined.to_stream().to("out")


def foreign_key_of_both(app: sl.App, by: Any) -> None:
    orders = app.table("orders", key=str, value=str, partitioner=by)
    customers = app.table("customers", key=str, value=str, partitioner=by)
    joined = orders.join(customers, lambda o, c: c, foreign_key=lambda v: v, value=str)
    joined.to_stream().to("out")


def stream_table(app: sl.App, by: Any) -> None:
    customers = app.table("customers", key=str, value=str, partitioner=by)
    orders = app.stream("orders", key=str, value=str).select_key(lambda k, v: v)
    orders.join(customers, lambda o, c: c, value=str).to("out")


def table_table(app: sl.App, by: Any) -> None:
    customers = app.table("customers", key=str, value=str, partitioner=by)
    orders = app.stream("orders", key=str, value=str)
    counts = orders.group_by(lambda k, v: v, key=str).count()
    counts.join(customers, lambda n, c: c, value=str).to_stream().to("out")


def stream_stream(app: sl.App, by: Any) -> None:
    customers = app.stream("customers", key=str, value=str, partitioner=by)
    orders = app.stream("orders", key=str, value=str).select_key(lambda k, v: v)
    orders.join(customers, lambda o, c: c, within=sl.join_windows("1h"), value=str).to("out")


def cogrouped(app: sl.App, by: Any) -> None:
    customers = app.stream("customers", key=str, value=str, partitioner=by)
    orders = app.stream("orders", key=str, value=str).group_by(lambda k, v: v, key=str)
    both = orders.cogroup(lambda k, v, n: n + 1)
    both = both.cogroup(customers.group_by_key(), lambda k, v, n: n + 100)
    both.aggregate(int).to_stream().filter(lambda k, n: n == 101).to("out")


BUILDS = [foreign_key, foreign_key_of_both, stream_table, table_table, stream_stream, cogrouped]


def results(build: Callable[[sl.App, Any], None], by: Any) -> int:
    """Orders that find their customers; both topics have four partitions."""
    app = sl.App("a")
    build(app, by)
    partitions = {"orders": COUNT, "customers": COUNT}
    with TopologyTestDriver(app, partitions=partitions) as driver:
        for n in range(40):
            driver.pipe_input("customers", f"c{n}", "Bern", timestamp_ms=1)
        for n in range(40):
            driver.pipe_input("orders", f"o{n}", f"c{n}", timestamp_ms=2)
        return len(driver.read_output("out"))


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("by", [None, "crc32", CRC32, "fnv1a"])
def test_all_rows_are_found(build: Callable[[sl.App, Any], None], by: Any) -> None:
    assert results(build, by) == 40


@pytest.mark.parametrize("build", BUILDS)
def test_repartition_topics_follow_the_topic_that_they_are_joined_with(
    build: Callable[[sl.App, Any], None],
) -> None:
    """Had they not, most rows would not be found: the driver puts input where it is said to lie."""
    app = sl.App("a")
    build(app, CRC32)
    topology = app.topology()
    sinks = [sink for part in topology.subtopologies for sink in part.sinks]
    ours = {sink.topic: sink.by_key for sink in sinks if sink.topic in topology.repartition_topics}
    assert CRC32 in ours.values()
    assert all(sink.by_key == "murmur2_random" for sink in sinks if sink.topic == "out")


def test_topics_that_are_joined_need_the_same_partitioner() -> None:
    app = sl.App("a")
    customers = app.table("customers", key=str, value=str, partitioner="crc32")
    app.stream("orders", key=str, value=str).join(customers, lambda o, c: c, value=str).to("out")
    with pytest.raises(
        TopologyError,
        match=r"orders \(partitioner='murmur2_random'\) and customers \(partitioner='consistent_ra"
        r"|customers \(partitioner='consistent_random'\) and orders \(partitioner='murmur2_ra",
    ):
        app.topology()
    patterns = sl.App("a")
    one = patterns.stream(re.compile("a-.*"), key=str, value=str, partitioner="fnv1a")
    other = patterns.stream("b", key=str, value=str)
    one.join(other, lambda a, b: a, within=sl.join_windows("1s"), value=str).to("out")
    with pytest.raises(TopologyError, match="are joined: give both the same partitioner="):
        patterns.topology()


def test_a_global_table_meets_records_of_any_partitioner() -> None:
    app = sl.App("a")
    rates = app.global_table("rates", key=str, value=str)
    orders = app.stream("orders", key=str, value=str, partitioner="crc32")
    orders.join(rates, lambda o, r: r, on=lambda k, v: k, value=str).to("out")
    app.topology()


def test_a_topic_is_read_by_one_partitioner() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=str, partitioner="crc32").to("out")
    app.stream("in", key=str, value=str, partitioner="consistent").to("other")
    with pytest.raises(TopologyError, match="read twice with different settings"):
        app.stream("in", key=str, value=str)
    app.table("rows", key=str, value=str, partitioner="crc32")
    with pytest.raises(TopologyError, match="a table already, with other settings"):
        app.table("rows", key=str, value=str)


@pytest.mark.parametrize("call", ["stream", "table"])
def test_a_wrong_name_is_refused_with_those_there_are(call: str) -> None:
    app: Any = sl.App("a")
    with pytest.raises(TopologyError, match=rf"{call}\('in'\): partitioner='md5' is no"):
        getattr(app, call)("in", key=str, value=str, partitioner="md5")


def test_the_partitioner_tells_versions_of_a_program_apart() -> None:
    hashes = set()
    for by in (None, "crc32", "fnv1a"):
        app: Any = sl.App("a")
        app.stream("in", key=str, value=str, partitioner=by).to("out")
        hashes.add(app.topology().subtopologies[0].hash)
    assert len(hashes) == 3
