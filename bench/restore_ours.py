"""streamlet's restore of four tasks that were alone on a machine and lost their disk.

The worker's own parts, without a group: the restorer, its consumer and the tasks' stores.
``python -m bench.restore_ours --bootstrap … --source … --state … --commits …`` is one measured run;
``--commits`` is the number of the last commit in the changelog.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import attrs

import streamlet as sl
from bench.broker import PARTITIONS, ends
from bench.restore_data import fingerprint
from bench.span import Span
from streamlet.clock import SystemClock
from streamlet.kafka.client import KafkaAdmin, KafkaSource, source_type
from streamlet.kafka.ports import PartitionBatch
from streamlet.state.store import CachedStore
from streamlet.state.task_state import TaskState
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.target import Target
from streamlet.tasks.task_restorer import ALONE_MS
from streamlet.types import StateNumber, TaskId, TopicPartition

_CACHE_BYTES = 64 << 20
_STORE = "kept"


@attrs.define
class WatchedSource:
    """A consumer that notes when the first record is there."""

    source: KafkaSource
    span: Span

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        batches = self.source.poll(max_records, timeout_ms, idle_ms)
        if batches and not self.span.started:
            self.span.start()
        return batches

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.source.assign(positions)

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        self.source.unassign(partitions)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.source.pause(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.source.resume(partitions)

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self.source.positions(partitions)

    def known_end(self, partition: TopicPartition) -> int | None:
        return self.source.known_end(partition)

    def held_from(self, partition: TopicPartition) -> int | None:
        return self.source.held_from(partition)

    def close(self) -> None:
        self.source.close()


def open_states(folder: Path, changelog: str) -> dict[TaskId, TaskState]:
    """The empty state of each task of an application that keeps the last value per key."""
    app = sl.App("bench-restore")
    stream = app.stream("bench-restore", key=str, value=bytes)
    stream.group_by_key().reduce(lambda _, value: value, store=_STORE)
    (part,) = app.topology().subtopologies
    assert part.changelog_topic(_STORE) == changelog, "restore.py names another topic"
    return {
        TaskId(part.id, partition): TaskState(
            folder / str(partition),
            part.stores,
            _CACHE_BYTES,
            {_STORE: TopicPartition(changelog, partition)},
        )
        for partition in range(PARTITIONS)
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "state", "commits"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    limit = StateNumber(1, int(options.commits))
    log_ends = ends(options.bootstrap, options.source)
    span = Span()
    client = source_type("auto", {})  # the one that workers take
    source = WatchedSource(client(options.bootstrap, headers=True), span)
    admin = KafkaAdmin(options.bootstrap)
    restorer = StoreChangelogReader(source, admin, SystemClock())
    states = open_states(Path(options.state), options.source)
    for task, state in states.items():
        target = {TopicPartition(options.source, task.partition): log_ends[task.partition]}
        restorer.add(OpenTask(task, state).restore(Target(ends=target, limit=limit)))
    left = set(states)
    while left:
        left -= {job.task for job in restorer.step(ALONE_MS)}
    span.end()
    stores = [cast(CachedStore, state.stores[_STORE]) for state in states.values()]
    found = [entry for store in stores for entry in store.range()]
    span.report(
        sum(log_ends.values()), keys=len(found), fingerprint=fingerprint(v for _, v in found)
    )
    restorer.close()
    for state in states.values():
        state.close()


if __name__ == "__main__":
    main()
