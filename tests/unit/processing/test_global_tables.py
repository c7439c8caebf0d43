"""A worker's copy of global tables: read whole at the start, followed, and kept over restarts."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.clock import ManualClock
from streamlet.errors import MissingTopicError, ProcessingError, StateLockedError
from streamlet.processing import global_tables
from streamlet.processing.global_tables import GlobalTables
from streamlet.processing.policy import ErrorPolicy
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.types import TopicPartition
from tests.unit.dsl.deployments import RAW, TYPES

DAY = 86_400_000


class Broker:
    """A topic ``g`` with two partitions, and workers that have it as a global table."""

    def __init__(self, folder: Path, policy: str = "fail", **config: str) -> None:
        self.clock = ManualClock(DAY)
        self.log = MemoryLog(self.clock)
        self.log.create("g", 2, {"cleanup.policy": "compact", **config})
        self.sink = MemorySink(self.log)
        self.folder, self.policy = folder, ErrorPolicy.of(policy)

    def put(self, key: str | None, value: str | None, partition: int = 0) -> None:
        encoded = [None if one is None else one.encode() for one in (key, value)]
        self.log.append(TopicPartition("g", partition), encoded[:1], encoded[1:])

    def open(self, *, value: type = str, persistent: bool = True) -> GlobalTables:
        app = sl.App("a")
        app.global_table("g", key=str, value=value, store=sl.Materialized("s", persistent))
        app.stream("in", key=str, value=str).to("out")
        return GlobalTables(
            app.topology().global_tables,
            self.folder / "a" / "global-0",
            MemorySource(self.log),
            MemoryAdmin(self.log),
            self.clock,
            policy=self.policy,
            sink=self.sink,
            application="a",
            flush_timeout_ms=1_000,
            cache_bytes=1 << 20,
            write_ms=100,
            look_ms=1_000,
        )

    def started(self, **more: Any) -> GlobalTables:
        tables = self.open(**more)
        tables.restore(lambda: True)
        return tables


def rows(tables: GlobalTables) -> dict[str, Any]:
    return dict(tables.stores["s"].range())


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_a_table_is_read_whole_before_anything_else_and_followed_then(broker: Broker) -> None:
    broker.put("a", "1")
    broker.put("b", "1", 1)
    broker.put(None, "dropped", 1)
    broker.put("a", "2")
    tables = broker.started()
    assert rows(tables) == {"a": "2", "b": "1"}
    assert tables.topic_lags == (("g", 0),)
    broker.put("a", None)
    broker.put("c", "1", 1)
    assert tables.lags == {TopicPartition("g", 0): 1, TopicPartition("g", 1): 1}
    assert tables.topic_lags == (("g", 2),)
    tables.step()
    assert rows(tables) == {"b": "1", "c": "1"}
    assert not any(tables.lags.values())


@pytest.mark.parametrize("written", [True, False])
def test_a_restart_reads_what_is_new(
    broker: Broker, written: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What was read since the last write is read again."""
    broker.put("a", "1")
    tables = broker.started()
    broker.put("b", "1")
    if written:
        broker.clock.advance(100)
    tables.step()
    tables.close()
    broker.put("c", "1", 1)
    with caplog.at_level(logging.INFO):
        again = broker.started()
    assert rows(again) == {"a": "1", "b": "1", "c": "1"}
    assert f"read {'1 record' if written else '2 records'} of global tables" in caplog.text


def test_offsets_without_records_are_not_waited_for(broker: Broker) -> None:
    broker.put("a", "1")
    broker.log.gap(TopicPartition("g", 0))
    assert rows(broker.started()) == {"a": "1"}


def test_a_copy_that_does_not_go_with_its_topic_is_built_again(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.put("gone", "1")
    broker.started().close()
    broker.log.delete("g")
    broker.log.create("g", 2)
    broker.put("a", "1")
    with caplog.at_level(logging.INFO):
        tables = broker.started()
    assert rows(tables) == {"a": "1"}
    assert "topic g was created again" in caplog.text


@pytest.mark.parametrize("late", [True, False])
def test_a_copy_that_is_older_than_deletions_are_remembered_is_built_again(
    tmp_path: Path, late: bool
) -> None:
    broker = Broker(tmp_path, **{"delete.retention.ms": "5000"})
    broker.put("a", "1")
    broker.started().close()
    broker.put("a", None)
    broker.put("b", "1")
    broker.log.compact(TopicPartition("g", 0), drop_tombstones=late)
    broker.clock.advance(6_000 if late else 4_000)
    assert rows(broker.started()) == {"b": "1"}


def test_a_topic_that_lost_records_is_read_again_while_the_worker_runs(broker: Broker) -> None:
    broker.put("a", "1")
    tables = broker.started()
    tables.step()
    for _ in range(5):
        broker.put("b", "1")
    broker.log.raise_start(TopicPartition("g", 0), 4)
    tables.step()
    assert rows(tables) == {"b": "1"}


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("count", [1, 3, 5], ids=["shorter", "as long", "longer"])
def test_a_topic_that_is_made_again_is_read_whole_while_the_worker_runs(
    broker: Broker, count: int, persistent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        broker.put(f"gone-{number}", "1")
    tables = broker.started(persistent=persistent)
    broker.log.delete("g")
    broker.log.create("g", 2)
    for number in range(count):
        broker.put(f"new-{number}", "1")
    broker.clock.advance(1_000)
    tables.step()
    assert rows(tables) == {f"new-{number}": "1" for number in range(count)}
    broker.put("later", "1", 1)
    tables.step()
    assert "later" in rows(tables)
    assert ("g was deleted and made again" in caplog.text) == (count >= 3)


def test_new_partitions_are_read_too(broker: Broker) -> None:
    tables = broker.started()
    broker.log._topics["g"].partitions.append(type(broker.log._topics["g"].partitions[0])())
    broker.put("a", "1", 2)
    broker.clock.advance(1_000)
    tables.step()
    tables.step()
    assert rows(tables) == {"a": "1"}


def test_a_table_in_memory_is_read_at_each_start(broker: Broker) -> None:
    broker.put("a", "1")
    broker.started(persistent=False).close()
    assert rows(broker.started(persistent=False)) == {"a": "1"}


def test_state_of_another_topology_is_read_again(broker: Broker) -> None:
    broker.put("a", "1")
    broker.started().close()
    assert rows(broker.started(value=bytes)) == {"a": b"1"}


def test_records_that_cannot_be_read_fail_the_worker_or_are_left_out(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.put("a", "not a number")
    with pytest.raises(ProcessingError, match="undecodable record"):
        broker.started(value=int)
    other = Broker(tmp_path / "other", "skip")
    other.put("a", "not a number")
    assert rows(other.started(value=int)) == {}


def test_a_topic_that_does_not_exist_is_named(broker: Broker) -> None:
    broker.log.delete("g")
    with pytest.raises(MissingTopicError, match="topic of a global table does not exist: g"):
        broker.started()


def test_a_folder_is_waited_for_and_the_holder_named(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = broker.started()
    monkeypatch.setattr(global_tables, "LOCKED_MS", 0)
    with pytest.raises(StateLockedError, match=f"is held by process {os.getpid()}"):
        broker.open()
    holder.close()
    broker.open().close()


def test_rows_of_the_version_before_are_read_by_a_type_with_a_field_more(broker: Broker) -> None:
    before, after = TYPES["a field more, with slots"]
    broker.put("o1", RAW.decode())
    broker.started(value=before).close()
    (row,) = rows(broker.started(value=after)).values()
    assert (row.item, row.gift) == ("lamp", False)
