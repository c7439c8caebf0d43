"""The sizes of tasks' states, as far as they can be seen from outside; pure.

A command given only the application's id knows no topology. But every commit names the changelogs
of its task, and its owner; so it is known which changelogs belong to which subtopology.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.topology.names import between_suffix
from streamlet.types import TaskId, TopicPartition

#: Subtopology, whether the input lies between two, and the changelogs.
_Fit: TypeAlias = tuple[int, bool, tuple[str, ...]]

#: What a record of a changelog is taken for where the broker does not tell sizes.
RECORD_BYTES = 100


def changelogs_by_subtopology(
    commits: Mapping[TopicPartition, CommitMetadata],
    running: Mapping[TaskId, str],
    topics: Iterable[str],
) -> dict[int, frozenset[str]]:
    """Changelog topics of each subtopology with state, as its commits name them.

    Inputs whose commits name the same changelogs belong together. They are those of the
    subtopology whose tasks the committers run, as far as nothing moved since. Where several fit
    alike, those that read topics between subtopologies come later, as they are numbered.

    Args:
        commits: what is known beside each committed position.
        running: the member id that runs each stateful task.
        topics: the changelogs there are; commits may have numbers in place of names.
    """
    named: dict[str, set[str]] = defaultdict(set)
    topics = tuple(topics)
    for partition, metadata in commits.items():
        changelogs = metadata.named(topics).ends
        named[partition.topic] |= {changelog.topic for changelog in changelogs}
    fits: Counter[_Fit] = Counter()
    for partition, metadata in commits.items():
        together = tuple(sorted(named[partition.topic]))
        between = bool(between_suffix(partition.topic))
        for task, member in running.items():
            if together and task.partition == partition.partition:
                fits[task.subtopology, between, together] += member == metadata.by
    found: dict[int, frozenset[str]] = {}
    for fit in sorted(fits, key=lambda fit: (-fits[fit], fit)):
        subtopology, together = fit[0], fit[2]
        if subtopology not in found and frozenset(together) not in found.values():
            found[subtopology] = frozenset(together)
    return found


def changelog_partitions(
    changelogs: Mapping[int, Iterable[str]], tasks: Iterable[TaskId]
) -> dict[TaskId, list[TopicPartition]]:
    """The changelog partitions of each task whose subtopology is known to have any."""
    return {
        task: [
            TopicPartition(topic, task.partition) for topic in sorted(changelogs[task.subtopology])
        ]
        for task in tasks
        if task.subtopology in changelogs
    }


def task_sizes(
    partitions: Mapping[TaskId, Iterable[TopicPartition]], sizes: Mapping[TopicPartition, int]
) -> dict[TaskId, int]:
    """The bytes of each task's changelog partitions."""
    return {task: sum(sizes.get(tp, 0) for tp in found) for task, found in partitions.items()}
