"""Records that a table left out, and that a restore from its topic leaves out as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.kafka.ports import PartitionBatch
from streamlet.state.plain_reader import PlainReader
from streamlet.state.task_state import TaskState
from streamlet.testing import TopologyTestDriver
from streamlet.types import TopicPartition

#: Keys, values and times of a topic. A table without an extractor takes neither the second row,
#: which is unreadable, nor the fourth and fifth, which have no time.
RECORDS = [
    (b"a", b"1", 10),
    (b"a", b"?", 20),
    (b"b", b"2", 30),
    (b"b", b"3", -1),
    (b"c", b"4", -7),
    (None, b"5", 40),
    (b"d", b"6", 50),
    (b"d", None, 60),
    (b"e", b"7", 5),
]


def number(raw: bytes) -> int:
    return int(raw.decode())


def digits(value: int) -> bytes:
    return str(value).encode()


def by_value(key: str, value: int | None, time: int) -> int:
    """An extractor that fails, and leaves out."""
    if value == 1:
        raise ValueError("no time for 1")
    return -1 if value == 6 else 100 + (value or 0)


def by_highest(key: str, value: int | None, time: int, highest: int) -> int:
    return max(time, highest)


def refuses(key: str) -> bytes:
    """The bytes of a key that can be read and not be written."""
    if key == "b":
        raise ValueError("not b")
    return key.encode()


def less_than_7(value: int) -> bytes:
    """The bytes of a value that can be read and not be written."""
    if value == 7:
        raise ValueError("not 7")
    return digits(value)


def priced(**more: Any) -> sl.App:
    app = sl.App("shop", on_error="skip")
    given: dict[str, Any] = {"key": str, "value": (digits, number), **more}
    app.table("in", store="rows", **given).to_stream().to("out")
    return app


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ({}, ["a", "b", "e"]),
        ({"timestamp": by_value}, ["b", "c", "e"]),
        ({"timestamp": sl.with_partition_time(by_highest)}, ["a", "b", "c", "e"]),
        ({"key": (refuses, bytes.decode)}, ["a", "e"]),
        ({"value": (less_than_7, number)}, ["a", "b"]),
    ],
)
def test_a_restored_table_has_the_rows_and_times_it_had(
    more: dict[str, Any], left: list[str]
) -> None:
    app = priced(**more)
    with TopologyTestDriver(app) as driver:
        for key, value, time in RECORDS:
            driver.pipe_bytes("in", key, value, time)
        live = entries(driver.store("rows"))
    (spec,) = app.topology().subtopologies[0].stores
    tp = TopicPartition("in", 0)
    restored = TaskState(None, [spec], 1 << 20, {"rows": tp})
    loader, reader = restored.loader("rows"), PlainReader(restored.stores["rows"].commits.taken)
    for first in range(0, len(RECORDS), 4):
        keys, values, times = map(list, zip(*RECORDS[first : first + 4], strict=True))
        offsets = range(first, first + len(keys))
        loader.add(*reader.read(PartitionBatch(*tp, offsets, keys, values, times)))
    loader.flush(len(RECORDS), 0, None, reader.newest)
    assert entries(restored.stores["rows"]) == live
    assert [key for key, _, _ in live] == left


def entries(store: Any) -> list[tuple[str, int, int]]:
    found: Callable[[Any], int] = store.timestamp
    return [(key, value, found(key)) for key, value in store.range()]
