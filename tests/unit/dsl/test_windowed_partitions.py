"""Windowed keys go to the partition of their key, whatever the window, as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.kafka.murmur2 import partition_of
from streamlet.testing import TopologyTestDriver

PARTITIONS = 7
KEYS = [f"key-{number}" for number in range(20)]


def counting(windows: Any) -> sl.App:
    app = sl.App("windows")
    words = app.stream("in", key=str, value=str).group_by_key()
    words.windowed_by(windows).count(store="counts").to_stream().to("out")
    return app


@pytest.mark.parametrize(
    "windows", [lambda: sl.tumbling("1s"), lambda: sl.sliding("1s"), lambda: sl.session("1s")]
)
def test_all_windows_of_a_key_are_in_the_partition_of_the_key(windows: Callable[[], Any]) -> None:
    with TopologyTestDriver(counting(windows()), partitions={"out": PARTITIONS}) as driver:
        for second in range(5):
            driver.pipe_inputs("in", [(key, "x") for key in KEYS], second * 5_000)
        found = driver.read_output("out")
    assert len(found) == 5 * len(KEYS)
    assert {(one.key.key, one.partition) for one in found} == {
        (key, partition_of(key.encode(), PARTITIONS)) for key in KEYS
    }
    assert len({one.partition for one in found}) > 3


def test_a_partitioner_of_ones_own_goes_first() -> None:
    app = sl.App("windows")
    words = app.stream("in", key=str, value=str).group_by_key()
    counts = words.windowed_by(sl.tumbling("1s")).count(store="counts").to_stream()
    counts.to("out", partitioner=lambda key, value, partitions: key.start // 1_000 % partitions)
    with TopologyTestDriver(app, partitions={"out": PARTITIONS}) as driver:
        for time_ms in (0, 1_000):
            driver.pipe_input("in", "a", "x", time_ms)
        assert [one.partition for one in driver.read_output("out")] == [0, 1]


def test_keys_that_lost_their_windows_go_by_themselves() -> None:
    app = sl.App("windows")
    words = app.stream("in", key=str, value=str).group_by_key()
    counts = words.windowed_by(sl.tumbling("1s")).count(store="counts").to_stream()
    counts.select_key(lambda key, _: key.key if key.start else None).to("out", key=str)
    with TopologyTestDriver(app, partitions={"out": PARTITIONS}) as driver:
        for time_ms in (0, 1_000):
            driver.pipe_input("in", "a", "x", time_ms)
        assert [one.key for one in driver.read_output("out")] == [None, "a"]
