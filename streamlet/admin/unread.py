"""Input partitions that no member of an application reads, and the records in them; pure.

The leader reports how many partitions of each input its plan covers. A topic that has more was
given them later: members without state take them at their next look, those with state never.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streamlet.admin.snapshot import GroupSnapshot
from streamlet.assignor.values import Violation
from streamlet.control.view import ControlView
from streamlet.counted import counted
from streamlet.kafka.ports import TopicInfo
from streamlet.types import TopicPartition


def reported_inputs(group: GroupSnapshot, control: ControlView) -> dict[str, int] | None:
    """The partitions of each input that the group's plan covers; None if no member reports it."""
    words = (control.progress_of(member.described.member_id) for member in group.members)
    found = [one for one in words if one is not None and one.inputs is not None]
    newest = max(found, key=lambda one: (one.generation, one.at_ms), default=None)
    return None if newest is None or newest.inputs is None else dict(newest.inputs)


def unread_partitions(
    topics: Mapping[str, TopicInfo],
    committed: Collection[TopicPartition],
    inputs: Mapping[str, int] | None,
) -> list[TopicPartition]:
    """The partitions of inputs that no task reads, in order.

    Without ``inputs`` (no instance runs) they are those beyond the last one with a committed
    position: each task commits one as soon as it runs.

    Args:
        topics: the topics there are.
        committed: the partitions with a committed position.
        inputs: the partitions of each input that are read; None: not known.
    """
    if inputs is None:
        inputs = {}
        for tp in committed:
            inputs[tp.topic] = max(inputs.get(tp.topic, 0), tp.partition + 1)
    known = set(committed)
    return [
        tp
        for topic, read in sorted(inputs.items())
        if topic in topics
        for partition in range(read, topics[topic].partitions)
        if (tp := TopicPartition(topic, partition)) not in known
    ]


def _waiting(records: int) -> str:
    return counted(records, "record waits", "records wait")


def unread_violations(unread: Mapping[TopicPartition, int]) -> list[Violation]:
    """T3: of each input with partitions that no task reads: which, and with how many records."""
    return [
        Violation(
            "T3",
            f"{_numbered(parts)} of {topic} {'is' if len(parts) == 1 else 'are'} not read "
            f"({_waiting(sum(parts.values()))} there): a stateful application keeps to the "
            "partitions that its state was made for, one without state takes others within "
            "metadata.max.age.ms",
        )
        for topic, parts in by_topic(unread).items()
    ]


def _numbered(partitions: Iterable[int]) -> str:
    numbers = sorted(partitions)
    if len(numbers) == 1:
        return f"partition {numbers[0]}"
    return f"partitions {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def by_topic(records: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    """Group numbers by topic and partition, in order."""
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), number in sorted(records.items()):
        found.setdefault(topic, {})[partition] = number
    return found
