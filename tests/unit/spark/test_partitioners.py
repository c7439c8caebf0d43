"""Topics that are written by another partitioner, on Spark: joins and rows of files follow it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ConfigError
from streamlet.kafka.placements import place
from streamlet.spark.plan.plan import plan
from streamlet.spark.plan.reference import query_topology
from streamlet.spark.sql.frame_columns import FrameSource
from streamlet.spark.sql.frame_sources import EncodeRows, frame_sources
from tests.unit.spark.staged import StagedQuery

HERE = f"{__name__}:"
CRC32, COUNT = "consistent_random", 4


def customers_of(app: sl.App) -> Any:
    return app.table("customers", key=str, value=str, partitioner=CRC32)


rekeyed = sl.App("rekeyed")
_orders = rekeyed.stream("orders", key=str, value=str).select_key(lambda k, v: v)
_orders.join(customers_of(rekeyed), lambda o, c: c, value=str).to("out")

foreign = sl.App("foreign")
_rows = foreign.table("orders", key=str, value=str)
_rows.join(
    customers_of(foreign), lambda o, c: c, foreign_key=lambda v: v, value=str
).to_stream().to("out")


@pytest.mark.parametrize("name", ["rekeyed", "foreign"])
def test_all_rows_are_found(name: str) -> None:
    counts = {"orders": COUNT, "customers": COUNT}
    found = plan(f"{HERE}{name}", query_topology(globals()[name]), counts)
    assert found.partitioners["customers"] == CRC32
    query = StagedQuery(found)
    rows = query.batch([("customers", f"c{n}", "Bern", 1) for n in range(40)])
    rows += query.batch([("orders", f"o{n}", f"c{n}", 2) for n in range(40)])
    assert len([row for row in rows if row[0] == "out"]) == 40


def test_rows_of_files_lie_where_the_topics_producer_puts_them() -> None:
    counts = {"orders": COUNT, "customers": COUNT}
    found = plan(f"{HERE}rekeyed", rekeyed.topology(), counts)
    keys = [b"c%d" % n for n in range(100)]
    for topic, by in (("customers", CRC32), ("orders", "murmur2_random")):
        layout: Any = SimpleNamespace(topic=topic)
        places = EncodeRows(found, layout)._places(keys)
        assert places == [place(by)(key, COUNT) for key in keys]


def test_rows_of_files_lie_where_the_source_says() -> None:
    found = plan(f"{HERE}rekeyed", rekeyed.topology(), {"orders": COUNT, "customers": COUNT})
    keys = [b"c%d" % n for n in range(100)]
    layout: Any = SimpleNamespace(topic="orders")
    assert EncodeRows(found, layout, CRC32)._places(keys) == [place(CRC32)(k, COUNT) for k in keys]


def rows(partitioner: Any = None) -> FrameSource:
    frame: Any = SimpleNamespace(isStreaming=False)
    return FrameSource(frame, partitioner=partitioner)


joined = sl.App("joined")
joined.table("left", key=str, value=str).join(
    joined.table("right", key=str, value=str), lambda a, b: a, value=str
).to_stream().to("out")


def test_partitioners_by_which_records_do_not_meet_are_refused() -> None:
    topology = joined.topology()
    with pytest.raises(ConfigError, match="left: partitioner: 'md5' is no partitioner"):
        frame_sources(topology, {"left": rows("md5"), "right": rows()})
    with pytest.raises(ConfigError, match=r"left: partitioner='consistent_random', and right with"):
        frame_sources(topology, {"left": rows("crc32"), "right": rows()})
    frame_sources(topology, {"left": rows("crc32"), "right": rows("consistent")})
    both = {"orders": rows("crc32"), "customers": rows()}
    frame_sources(rekeyed.topology(), both)  # goes through a repartition topic
    with pytest.raises(ConfigError, match=r"customers: partitioner='fnv1a_random', and rekeyed-"):
        frame_sources(rekeyed.topology(), {"orders": rows(), "customers": rows("fnv1a")})
