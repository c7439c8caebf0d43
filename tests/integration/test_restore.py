"""Restoring from a real changelog: bulk, tail, a kill in the middle, a topic created again."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlet.clock import SystemClock
from streamlet.kafka.client import KafkaAdmin, KafkaSink, KafkaSource
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from streamlet.state.changelog import encode_column
from streamlet.state.rows import untimed
from streamlet.state.task_state import TaskState
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.target import Target
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.unit.state.support import Spec

pytestmark = pytest.mark.integration

KEYS = 60_000
PARTITIONS = 2
PATIENCE_MS = 30_000


class Changelog:
    """A compacted topic with a writer, and what a store restored from it must hold."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.topic = f"restore-{uuid.uuid4().hex[:8]}-changelog"
        self.where = bootstrap_servers
        self.admin = KafkaAdmin(bootstrap_servers)
        self.sink = KafkaSink(bootstrap_servers)
        self.create()

    def create(self) -> None:
        config = (("cleanup.policy", "compact"), ("min.compaction.lag.ms", "3600000"))
        self.admin.create_topics([NewTopic(self.topic, PARTITIONS, 1, config)])

    def flush(self, epoch: int, number: int, partition: int, entries: dict[bytes, int]) -> None:
        """One flush; the value 0 is a tombstone."""
        raws = [value.to_bytes(8, "big") if value else None for value in entries.values()]
        values, headers = encode_column(StateNumber(epoch, number), untimed(raws))
        keys: list[bytes | None] = [*entries]
        self.sink.send(
            OutgoingRecords(self.topic, keys, values, partitions=partition, headers=headers)
        )
        self.sink.flush(PATIENCE_MS)

    def close(self) -> None:
        self.admin.delete_topics([self.topic])
        self.sink.close()
        self.admin.close()


@pytest.fixture
def changelog(bootstrap_servers: str) -> Iterator[Changelog]:
    changelog = Changelog(bootstrap_servers)
    try:
        yield changelog
    finally:
        changelog.close()


def open_state(folder: Path, topic: str, partition: int) -> TaskState:
    tp = TopicPartition(topic, partition)
    return TaskState(folder / f"0_{partition}", [Spec("s")], 1 << 20, {"s": tp})


def restore(
    folder: Path, bootstrap_servers: str, topic: str, limit: StateNumber, buffer: int = 250_000
) -> tuple[list[TaskState], int]:
    """The states of all tasks, and how many records were read for them."""
    admin = KafkaAdmin(bootstrap_servers)
    source = KafkaSource(bootstrap_servers, headers=True)
    counted: dict[TaskId, int] = {}
    restorer = StoreChangelogReader(
        source,
        admin,
        SystemClock(),
        lambda told: counted.__setitem__(told.task, told.restored),
        buffer_records=buffer,
    )
    states = [open_state(folder, topic, partition) for partition in range(PARTITIONS)]
    ends = admin.end_offsets([tp for state in states for tp in state.changelogs.values()])
    ids = admin.topic_ids([topic])
    for partition, state in enumerate(states):
        restorer.add(
            OpenTask(TaskId(0, partition), state).restore(
                Target(ends=ends, limit=limit, topic_ids=ids)
            )
        )
    steps = 0
    while not restorer.idle:
        restorer.step(100)
        steps += 1
        assert steps < PATIENCE_MS // 100, "does not end"
        print(sum(sum(state.positions.values()) for state in states), flush=True)
    restorer.close()
    admin.close()
    return states, sum(counted.values())


def entries(state: TaskState) -> dict[str, int]:
    return dict(state.stores["s"].range())


def test_bulk_then_tail_with_tombstones_and_records_that_do_not_count(
    changelog: Changelog, tmp_path: Path
) -> None:
    for partition in range(PARTITIONS):
        changelog.flush(1, 1, partition, {b"%06d" % i: 1 for i in range(KEYS)})
        changelog.flush(1, 2, partition, {b"%06d" % i: i % 3 for i in range(100)})
        changelog.flush(1, 3, partition, {b"000000": 9, b"new": 9})
    wanted = {f"{i:06d}": 1 for i in range(KEYS)} | {f"{i:06d}": i % 3 for i in range(100)}
    wanted = {key: value for key, value in wanted.items() if value}
    states, read = restore(tmp_path, changelog.where, changelog.topic, StateNumber(1, 2))
    assert read == PARTITIONS * (KEYS + 102)
    for state in states:
        assert entries(state) == wanted
        assert state.positions == {tp: KEYS + 100 for tp in state.changelogs.values()}
        columns = state.drain().columns["s"]
        assert dict(zip(columns.keys, columns.values, strict=True)) == {
            b"000000": None,
            b"new": None,
        }
        state.close()
    for partition in range(PARTITIONS):
        changelog.flush(2, 1, partition, {b"000000": 0, b"new": 0, b"000001": 7})
    states, read = restore(tmp_path, changelog.where, changelog.topic, StateNumber(2, 1))
    assert read == PARTITIONS * 5, "only the tail"
    for state in states:
        assert entries(state) == {**wanted, "000001": 7}
        assert not state.has_dirty()
        state.close()


def test_a_restore_killed_in_the_middle_goes_on_from_there(
    changelog: Changelog, tmp_path: Path
) -> None:
    for partition in range(PARTITIONS):
        for number in range(1, 6):
            changelog.flush(1, number, partition, {b"%06d" % i: number for i in range(KEYS)})
    script = (
        f"from {__name__} import *; "
        f"restore(Path({str(tmp_path)!r}), {changelog.where!r}, {changelog.topic!r}, "
        "StateNumber(1, 5), buffer=30_000); "
        "sys.stdin.read()"  # should it be through before it is killed
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as child:
        assert child.stdout is not None
        for written in child.stdout:
            if int(written) > 0:
                break
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    states, read = restore(tmp_path, changelog.where, changelog.topic, StateNumber(1, 5))
    assert read < PARTITIONS * 5 * KEYS, "not from the start"
    for state in states:
        assert entries(state) == {f"{i:06d}": 5 for i in range(KEYS)}
        state.close()


@pytest.mark.parametrize("how", ["created again", "cut off"])
def test_state_of_another_changelog_is_rebuilt(
    changelog: Changelog, tmp_path: Path, how: str
) -> None:
    for partition in range(PARTITIONS):
        changelog.flush(1, 1, partition, {b"a": 1, b"gone": 1})
    for state in restore(tmp_path, changelog.where, changelog.topic, StateNumber(1, 1))[0]:
        state.close()
    if how == "created again":
        changelog.admin.delete_topics([changelog.topic])
        changelog.create()
    else:
        for partition in range(PARTITIONS):
            changelog.flush(1, 2, partition, {b"gone": 0})
        changelog.admin.delete_records(
            {TopicPartition(changelog.topic, p): 3 for p in range(PARTITIONS)}
        )
    for partition in range(PARTITIONS):
        changelog.flush(1, 3, partition, {b"a": 3, b"b": 3})
    states, _ = restore(tmp_path, changelog.where, changelog.topic, StateNumber(1, 3))
    for state in states:
        assert entries(state) == {"a": 3, "b": 3}
        state.close()
