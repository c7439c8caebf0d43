"""What state folders contain, against what changelogs and inputs say they must contain."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

from streamlet.errors import StateError
from streamlet.state.directory import DATABASE, StateDirectory, TaskFolder
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.integration.chaos.support import Cluster
from tests.integration.chaos.topics import Record, read_all


@attrs.frozen
class Copy:
    """What the disk holds of one task."""

    task: TaskId
    state: StateNumber
    positions: dict[TopicPartition, int]
    changelogs: dict[str, TopicPartition]
    plain: frozenset[str]  # stores over a topic that others write, without commit numbers
    entries: dict[str, dict[bytes, bytes]]


def read_copies(cluster: Cluster, state_dir: Path, scratch: Path) -> list[Copy]:
    """All tasks of a state.dir, read from a copy: nothing of the original is touched."""
    return [_read(cluster, f.task, f.path) for f in copied(cluster, state_dir, scratch)]


def readable_copies(cluster: Cluster, state_dir: Path, scratch: Path) -> list[Copy]:
    """As ``read_copies``, without those that are damaged or of another topology."""
    found = []
    for folder in copied(cluster, state_dir, scratch):
        if folder.task in cluster.tasks:
            with contextlib.suppress(StateError):
                found.append(_read(cluster, folder.task, folder.path))
    return found


def copied(cluster: Cluster, state_dir: Path, scratch: Path) -> list[TaskFolder]:
    """The task folders of a state.dir, copied to a folder of their own."""
    shutil.rmtree(scratch, ignore_errors=True)
    found = state_dir / cluster.name
    if not found.exists():
        return []
    shutil.copytree(found, scratch)
    folders = StateDirectory(scratch.parent, scratch.name).tasks()
    return [folder for folder in folders if (folder.path / DATABASE).is_dir()]


def _read(cluster: Cluster, task: TaskId, folder: Path) -> Copy:
    part = cluster.topology.subtopology(task.subtopology)
    changelogs = {
        spec.name: TopicPartition(topic, task.partition)
        for spec in part.stores
        if (topic := part.changelog_topic(spec.name)) is not None
    }
    state = TaskState(folder, part.stores, 1 << 20, changelogs)
    try:
        entries = {
            spec.name: {
                spec.key.encode(key): spec.value.encode(value)
                for key, value in state.stores[spec.name].range()
            }
            for spec in part.stores
        }
        return Copy(task, state.state, dict(state.positions), changelogs, state.plain, entries)
    finally:
        state.close()


class Changelogs:
    """What a cluster's changelogs hold; one that was read is read again only if it went on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read: dict[TopicPartition, list[Record]] = {}

    def upto(self, tp: TopicPartition, end: int) -> list[Record]:
        """The records below an offset."""
        known = self._read.get(tp, [])
        if end and (not known or known[-1].offset < end - 1):
            partitions = range(self._cluster.partition_count)
            self._read |= {TopicPartition(tp.topic, partition): [] for partition in partitions}
            for record in read_all(self._cluster.servers, tp.topic, partitions):
                self._read[TopicPartition(tp.topic, record.partition)].append(record)
        return [record for record in self._read.get(tp, []) if record.offset < end]


def assert_agrees(cluster: Cluster, copy: Copy, changelogs: Changelogs | None = None) -> None:
    """Stores, positions and number of a copy say the same.

    The stores equal the changelog up to the positions, as a reader that knows the group's commit
    would read it, and they are not ahead of that commit.
    """
    changelogs = changelogs or Changelogs(cluster)
    metadata = cluster.of_task(copy.task, cluster.committed()).metadata
    limit = StateNumber(0, 0) if metadata is None else metadata.state
    assert copy.state <= limit, f"{copy.task}: {copy.state} on disk, {limit} committed"
    for store, tp in copy.changelogs.items():
        upto = copy.positions.get(tp, 0)
        wanted = fold(changelogs.upto(tp, upto), limit, plain=store in copy.plain)
        assert_same(
            wanted, copy.entries[store], f"{copy.task} {store} at {copy.state}, {tp}:{upto}"
        )


def fold(
    records: Iterable[Record], limit: StateNumber, *, plain: bool = False
) -> dict[bytes, bytes]:
    """The last value per key among the records that count; written again here, record by record."""
    entries: dict[bytes, bytes] = {}
    highest = 0
    for record in records:
        value = record.value
        if not plain:
            state, value = numbered(record)
            if state.epoch < highest:
                continue
            highest = state.epoch
            if state > limit:
                continue
        if value is None:
            entries.pop(record.key, None)
        else:
            entries[record.key] = value
    return entries


def numbered(record: Record) -> tuple[StateNumber, bytes | None]:
    """Commit number and value of a changelog record, without the time of the row."""
    data = record.value if record.value is not None else dict(record.headers)["s"]
    assert data is not None
    numbers, at = [], 0
    for _ in range(2):
        number, shift = 0, 0
        while True:
            number |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        numbers.append(number)
    return StateNumber(*numbers), None if record.value is None else data[at + 8 :]


def assert_same(wanted: Mapping[bytes, bytes], found: Mapping[bytes, bytes], what: str) -> None:
    """Two contents are the same; says where they are not."""
    wrong = {
        key: (wanted.get(key), found.get(key))
        for key in sorted({*wanted, *found})
        if wanted.get(key) != found.get(key)
    }
    some = dict(list(wrong.items())[:5])
    assert not wrong, f"{what}: {len(wrong)} of {len(wanted)} keys differ (wanted, found): {some}"
