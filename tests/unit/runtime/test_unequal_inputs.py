"""Topics with unequal partition counts in workers; one grows, another is made that matches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from streamlet.app import App
from streamlet.coordinator.messages import OffsetFetch
from streamlet.testing.coordinator import FakeCoordinator
from streamlet.testing.memory_ports import MemoryLog
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition
from tests.coordinator_transport import FakeCluster
from tests.unit.runtime.members import CLOCK, PARTITIONS, Group, wait_for
from tests.unit.runtime.test_task_manager import running

#: What is merged with ``words``, with a partition less than that has at last.
MORE = "more"


def merging(topics: list[str] | re.Pattern[str]) -> Topology:
    """Counts per key of these topics, every count written to ``counts``."""
    app = App("app")
    words = app.stream(topics, key=str, value=str)
    words.group_by_key().count(store="counts").to_stream().to("counts")
    return app.topology()


def grow(log: MemoryLog, topic: str, partitions: int) -> None:
    """Add partitions; what lies in the others stays."""
    spare = f"{topic}-grown"
    log.create(spare, partitions)
    log._topics[topic].partitions += log._topics[spare].partitions[
        len(log._topics[topic].partitions) :
    ]
    log.delete(spare)


def done(group: Group, *, words: int) -> bool:
    """Whether each word was counted so often."""
    of_words = {key: found for key, found in group.counts().items() if key[1:].isdigit()}
    return len(of_words) == 40 and all(found[-1] == words for found in of_words.values())


def last(group: Group, *, words: int) -> None:
    """Each word was counted so often, and each other key once; outputs may repeat (restarts)."""
    for key, numbers in group.counts().items():
        count = words if key[1:].isdigit() else 1
        assert (set(numbers), numbers[-1]) == ({*range(1, count + 1)}, count), key


class Counts(Mapping[str, int]):
    """Partitions of the topics that a log has just now, as the coordinator knows them."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def __getitem__(self, topic: str) -> int:
        return self._log.infos()[topic].partitions

    def __iter__(self) -> Iterator[str]:
        return iter(self._log.infos())

    def __len__(self) -> int:
        return len(self._log.infos())


def group_over(root: Path, topology: Topology, **config: str) -> Group:
    """A group whose coordinator keeps no positions of topics that are not there."""
    group = Group(root, topology, **config)
    coordinator = FakeCoordinator(topics=Counts(group.log))
    group.cluster = FakeCluster(coordinator, CLOCK)
    return group


def delete(group: Group, topic: str) -> None:
    """Delete a topic, and its positions a moment later, as brokers do."""
    group.log.delete(topic)
    group.cluster.delete_topic(topic)


def committed(group: Group, topic: str, partitions: int) -> bool:
    """True if the group has committed the end of each partition."""
    inputs = tuple(TopicPartition(topic, partition) for partition in range(partitions))
    found = group.cluster.coordinator.offsets.fetch(OffsetFetch("app", inputs)).committed
    return all(found[tp].offset == group.log.end(tp) for tp in inputs)


def write(group: Group, partition: int, key: str) -> None:
    group.log.append(TopicPartition(MORE, partition), [key.encode()], [b"x"])


def test_tasks_read_what_there_is_and_a_new_partition_as_soon_as_it_is_seen(
    tmp_path: Path,
) -> None:
    """The tasks stay the same, so the group is not asked; the one task begins again by itself."""
    group = Group(tmp_path, merging(["words", MORE]), metadata_max_age_ms="50")
    group.log.create(MORE, PARTITIONS - 2)
    with running(group):
        write(group, PARTITIONS - 3, "early")
        group.produce(2)
        member = group.member("a")
        wait_for(lambda: done(group, words=2) and "early" in group.counts(), "all is counted")
        open_before = {task: id(state) for task, state in member.open_tasks().items()}
        assert len(open_before) == PARTITIONS
        generation = member.worker._actions.generation
        grow(group.log, MORE, PARTITIONS - 1)
        write(group, PARTITIONS - 2, "late")
        wait_for(lambda: "late" in group.counts(), "the new partition is read")
        wait_for(lambda: len(member.running) == PARTITIONS, "all run")
        open_after = {task: id(state) for task, state in member.open_tasks().items()}
        grown = TaskId(0, PARTITIONS - 2)
        assert {task for task in open_after if open_after[task] != open_before[task]} == {grown}
        assert member.worker._actions.generation == generation
        group.end()
    last(group, words=2)


def test_a_topic_that_is_made_later_is_read_whole_under_latest(tmp_path: Path) -> None:
    """What was written before a worker looked for topics came after the application."""
    settings = {"metadata_max_age_ms": "200", "auto_offset_reset": "latest"}
    group = Group(tmp_path, merging(re.compile(f"words|{MORE}")), **settings)
    with running(group):
        group.produce(1)
        member = group.member("a")
        wait_for(lambda: len(member.running) == PARTITIONS, "all run")
        group.log.create(MORE, 1)
        write(group, 0, "early")
        wait_for(lambda: "early" in group.counts(), "what was written before the look is read")
        assert "k0" not in group.counts(), "what was there before the application is not"
        group.end()


def test_a_topic_that_is_made_later_is_read_once_it_matches(tmp_path: Path) -> None:
    """Running tasks begin again with it; what they counted before stays."""
    pattern = re.compile(f"words|{MORE}")
    group = Group(tmp_path, merging(pattern), metadata_max_age_ms="50")
    with running(group):
        group.produce(2)
        for name in ("a", "b"):
            group.member(name)
        wait_for(lambda: done(group, words=2), "all that is there is counted")
        group.log.create(MORE, PARTITIONS - 1)
        for partition in range(PARTITIONS - 1):
            write(group, partition, f"more-{partition}")
        made = {f"more-{partition}" for partition in range(PARTITIONS - 1)}
        wait_for(lambda: made <= group.counts().keys(), "the new topic is read")
        group.produce(1)
        wait_for(lambda: done(group, words=3), "the old one is read on")
        group.end()
    last(group, words=3)


@pytest.mark.parametrize("more", [PARTITIONS - 1, PARTITIONS + 2])
def test_others_go_on_when_a_topic_is_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, more: int
) -> None:
    """Two of its partitions may be the only inputs of their tasks, which end then."""
    pattern = re.compile(f"words|{MORE}")
    group = group_over(tmp_path, merging(pattern))
    group.log.create(MORE, more)
    with running(group):
        for name in ("a", "b"):
            group.member(name)
        wait_for(lambda: sum(group.shares()) == max(more, PARTITIONS), "all run")
        group.produce(1)
        for partition in range(more):
            write(group, partition, f"more-{partition}")
        made = {f"more-{partition}" for partition in range(more)}
        wait_for(lambda: done(group, words=1) and made <= group.counts().keys(), "all is counted")
        wait_for(lambda: committed(group, MORE, more), "no commit is left that misses the topic")
        delete(group, MORE)
        group.produce(1)
        wait_for(lambda: done(group, words=2), "the others go on")
        wait_for(lambda: "does not exist any more" in caplog.text, "their commit misses the topic")
        wait_for(lambda: sum(group.shares()) == PARTITIONS, "each task with an input runs")
        assert "lost all tasks" not in caplog.text
        told = [m for m in caplog.messages if "does not exist any more" in m]
        assert len(told) in (1, 2), "once a worker"
        assert all(MORE in line for line in told)
        group.end()
    last(group, words=2)
