"""Records of a copy that wait for the proof of their commit: the memory that they take."""

from __future__ import annotations

import pytest

from streamlet.clock import ManualClock
from streamlet.coordinator.commit_metadata import CommitMetadata, Rebuilt
from streamlet.kafka.ports import PartitionBatch
from streamlet.state.changelog import encode_column
from streamlet.state.task_state import TaskState
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.target import Target
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySource
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.unit.state.support import Spec, changelog

TASK, LOG, OTHER = TaskId(0, 0), changelog("s", 0), changelog("t", 0)
BOUND, KEY, FORGED = 64 << 10, 4 << 10, 200


class SmallPolls(MemorySource):
    """Five records a poll at most, as brokers send large ones."""

    def poll(self, max_records: int, timeout_ms: int) -> list[PartitionBatch]:
        """Poll fewer."""
        return super().poll(min(max_records, 5), timeout_ms)


class Copy:
    """A copy of a task with two stores, and the logs that its owner writes."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        for tp in (LOG, OTHER):
            self.log.create(tp.topic, 1)
        self.reader = StoreChangelogReader(
            SmallPolls(self.log, headers=True),
            MemoryAdmin(self.log),
            ManualClock(),
            held_bytes=BOUND,
        )
        self.state = TaskState(None, [Spec("s"), Spec("t")], 1 << 20, {"s": LOG, "t": OTHER})
        self.task = OpenTask(TASK, self.state).follow(Target(ends={LOG: 0, OTHER: 0}))
        self.reader.add(self.task)

    def write(self, number: int, keys: str, tp: TopicPartition = LOG) -> None:
        """One flush of the owner, which is of epoch 3."""
        row = [bytes(15) + b"%c" % number]
        values, headers = encode_column(StateNumber(3, number), row * len(keys))
        self.log.append(tp, [key.encode() for key in keys], values, headers=headers)

    def forge(self, number: int) -> None:
        """Many large records with the owner's number, of a program that may write there."""
        values, headers = encode_column(StateNumber(3, number), [bytes(16)] * FORGED)
        self.log.append(LOG, [b"z" * (KEY + i) for i in range(FORGED)], values, headers=headers)

    def read(self) -> int:
        """Read all there is; the most memory that records waited in meanwhile."""
        most, steps = 0, 0
        while not self.reader.step(0) and not (self.reader.quiet and steps):
            most = max(most, sum(part.held_bytes for part in self.task.parts))
            steps += 1
        return most

    def rows(self) -> dict[object, object]:
        """What the first store has of the owner's rows."""
        if self.task.begun and not self.task.read:
            for part in self.task.parts:
                part.flush()
        rows = dict(self.state.stores["s"].range())
        return {key: value for key, value in rows.items() if not str(key).startswith("z")}

    def target(self, number: int, rewrite: frozenset[TopicPartition] = frozenset()) -> Target:
        """The target of a hand-over at this commit."""
        ends = {tp: self.log.end(tp) for tp in (LOG, OTHER)}
        metadata = CommitMetadata(3, "one", 7, ends, StateNumber(3, number))
        rebuilt = Rebuilt(3, True, {}) if rewrite else None
        return Target(
            ends=ends,
            epoch=3,
            limit=metadata.state,
            metadata=metadata,
            rewrite=rewrite,
            rebuilt=rebuilt,
        )


def test_rows_with_the_owners_own_number_take_little_memory_and_hide_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    copy = Copy()
    copy.write(1, "ab")
    copy.write(2, "b")
    copy.forge(2)
    assert copy.read() <= BOUND
    assert copy.rows() == {"a": 1, "b": 1}
    assert "records of commit (3, 2) from offset 2 on" in caplog.text
    copy.write(3, "c")
    copy.read()
    copy.write(4, "d")
    copy.read()
    assert copy.rows() == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(("committed", "rows"), [(2, {"a": 1, "b": 2}), (1, {"a": 1, "b": 1})])
def test_a_promoted_copy_reads_again_what_it_let_go(committed: int, rows: dict[str, int]) -> None:
    copy = Copy()
    copy.write(1, "ab")
    copy.write(2, "b")
    copy.forge(2)
    copy.read()
    assert copy.reader.promote(TASK, copy.target(committed))
    assert copy.read() <= BOUND
    assert (copy.rows(), copy.task.read, copy.task.beyond) == (rows, True, None)
    assert (b"b" in copy.state.again.get("s", {})) == (committed == 1)


def test_a_copy_that_let_records_go_is_not_the_source_of_a_log_that_lost_them() -> None:
    copy = Copy()
    copy.write(1, "ab")
    copy.forge(2)
    copy.read()
    assert not copy.reader.promote(TASK, copy.target(2, frozenset({LOG})))


def test_the_partition_with_most_lets_go_first() -> None:
    copy = Copy()
    copy.write(1, "a", OTHER)
    copy.write(2, "a", OTHER)
    copy.forge(2)
    copy.read()
    by_log = {part.tp: part.reader for part in copy.task.parts}
    assert (by_log[LOG].forgetful, by_log[OTHER].forgetful) == (True, False)  # type: ignore[attr-defined]
