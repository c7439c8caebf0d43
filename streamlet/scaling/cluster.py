"""An application as the scaling commands see it: its group once it is stable, state and sizes.

The only input and output of this room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from streamlet.admin.current import CurrentGroup
from streamlet.admin.snapshot import GroupSnapshot
from streamlet.admin.window import REQUEST_MS, ApplicationInfo, GroupWindow
from streamlet.assignor.values import GroupState, Leaving, Rules
from streamlet.control.agreement import settings_of
from streamlet.control.values import Mark, MemberKey
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.errors import BrokerError, MissingRightError, NotFoundError, TimedOutError
from streamlet.logs import get_logger
from streamlet.rebalance.protocol import rules_from
from streamlet.rights import on_topics
from streamlet.scaling.present import owners, present
from streamlet.topology.names import CHANGELOG_SUFFIX, between_suffix
from streamlet.topology.subtopologies import Subtopology
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

    A command that is given only the application's id knows no topology.
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


log = get_logger(__name__)

#: How long a group that rebalances is waited for.
_SETTLE_MS = 30_000


def running(window: GroupWindow) -> CurrentGroup:
    """The application as it is now, once its group is stable.

    Raises:
        NotFoundError: no such application, or it is not running.
        TimedOutError: it goes on rebalancing.
        BrokerError: the broker does not answer or refuses, or there is no control topic.
    """
    group = _stable(window)
    name = window.control.name
    if name not in window.admin.topics():
        raise MissingRightError(
            f"topic {name} is not there or may not be seen: either the application runs a "
            f"streamlet without it, or {on_topics('READ', [name])}, and WRITE likewise"
        )
    return CurrentGroup(group, window.control.read())


def _stable(window: GroupWindow) -> GroupSnapshot:
    found = window.settled(_SETTLE_MS)
    if found.stable:
        return found
    if not found.members:
        raise NotFoundError(f"{window.name} is not running: its group has no members")
    raise TimedOutError(
        f"{window.name} is still in {found.described.state} after {_SETTLE_MS // 1000} s; "
        "nothing was marked"
    )


def planning_state(
    window: GroupWindow, current: CurrentGroup, marks: Mapping[str, Mark]
) -> GroupState:
    """The assignor's input if exactly these were marked."""
    leaving = {key: Leaving(m.since_ms, m.deadline_ms) for key, m in marks.items()}
    now_ms, progress = window.clock.wall_ms(), current.control.progress
    rules = _rules(window.application, current)
    return present(current.group, rules, now_ms, leaving, progress)


def _rules(application: ApplicationInfo, current: CurrentGroup) -> Rules:
    """The rules of the group's leader; the command's own where the leader reports none."""
    leader = current.group.leader
    if leader is None:
        return application.rules
    key = MemberKey(leader.reported.instance, leader.reported.member)
    found = settings_of(current.control, key)
    return application.rules if found is None else rules_from(found, learners=True)


def state_sizes(window: GroupWindow, current: CurrentGroup) -> dict[TaskId, int]:
    """Bytes of each stateful task's changelogs on the brokers' disks.

    Where the brokers do not tell (``DESCRIBE`` on the cluster is needed), 100 bytes for each offset
    between the first and the end.
    """
    found = planning_state(window, current, {})
    stateful = [info.task for info in found.tasks if info.stateful]
    partitions = changelog_partitions(_changelogs(window, found), stateful)
    everything = sorted({tp for found in partitions.values() for tp in found})
    return task_sizes(partitions, _bytes(window, everything))


def _changelogs(window: GroupWindow, state: GroupState) -> Mapping[int, frozenset[str]]:
    topology = window.application.topology
    if topology is not None:
        return {
            part.id: frozenset(filter(None, map(part.changelog_topic, _names(part))))
            for part in topology.subtopologies
        }
    # Of a commit of a later version the sizes stay unknown.
    texts = ((tp, CommitMetadata.read(one.metadata)) for tp, one in window.committed().items())
    commits = {tp: found for tp, found in texts if found is not None}
    stateful = {info.task for info in state.tasks if info.stateful}
    by_task = {task: member.member_id for task, member in owners(state).items() if task in stateful}
    topics = (name for name in window.admin.topics() if name.startswith(f"{window.name}-"))
    return changelogs_by_subtopology(
        commits, by_task, (name for name in topics if name.endswith(CHANGELOG_SUFFIX))
    )


def _bytes(window: GroupWindow, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    if not topics:
        return {}
    try:
        sizes = window.transport.log_sizes(topics, REQUEST_MS).result()
    except BrokerError as error:
        log.warning("the brokers do not tell how large topics are: %s", error)
        sizes = {}
    unknown = [tp for tp in partitions if tp not in sizes]
    if unknown:
        there = window.admin.topics()
        unknown = [tp for tp in unknown if tp.topic in there]
    if unknown:
        ends = window.admin.end_offsets(unknown)
        starts = window.admin.start_offsets(unknown)
        sizes |= {tp: (ends[tp] - starts[tp]) * RECORD_BYTES for tp in unknown}
    return sizes


def _names(subtopology: Subtopology) -> list[str]:
    return [spec.name for spec in subtopology.stores]
