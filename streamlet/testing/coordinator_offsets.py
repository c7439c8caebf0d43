"""The committed offsets behind the fake coordinator, and who may change them.

Any member of the generation may commit any partition: the broker knows no owners.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.coordinator.messages import (
    Committed,
    OffsetCommit,
    OffsetCommitAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
)
from streamlet.testing.coordinator_desk import (
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    OFFSET_METADATA_TOO_LARGE,
    OK,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSTABLE_OFFSET_COMMIT,
    GroupPhase,
)
from streamlet.testing.coordinator_group import ClassicGroup
from streamlet.types import TopicPartition

_NONE = Committed(-1, "")


class Offsets:
    """Positions by group and partition; they outlive the groups' members and a restart."""

    def __init__(self, metadata_max: int, topics: Mapping[str, int] | None) -> None:
        self._metadata_max = metadata_max
        self._topics = topics
        self._committed: dict[str, dict[TopicPartition, Committed]] = {}
        self._unstable: set[tuple[str, TopicPartition]] = set()

    def commit(self, request: OffsetCommit, group: ClassicGroup | None) -> OffsetCommitAnswer:
        """Accept or refuse, each partition for itself; the group is None when there is none."""
        refusal = _check(request, group)
        errors: dict[TopicPartition, int] = {}
        for partition, (offset, metadata) in request.offsets.items():
            if not self._exists(partition):
                errors[partition] = UNKNOWN_TOPIC_OR_PARTITION
            elif refusal != OK:
                errors[partition] = refusal
            elif len(metadata) > self._metadata_max:
                errors[partition] = OFFSET_METADATA_TOO_LARGE
            else:
                errors[partition] = OK
                self._committed.setdefault(request.group, {})[partition] = Committed(
                    offset, metadata
                )
        return OffsetCommitAnswer(errors)

    def fetch(self, request: OffsetFetch) -> OffsetFetchAnswer:
        """Read; membership is not needed, nor is a group."""
        offsets = self._committed.get(request.group, {})
        return OffsetFetchAnswer(
            OK,
            {
                partition: Committed(-1, "", UNSTABLE_OFFSET_COMMIT)
                if request.require_stable and (request.group, partition) in self._unstable
                else offsets.get(partition, _NONE)
                for partition in request.partitions
            },
        )

    def delete_topic(self, topic: str) -> None:
        """Forget the positions of a topic that was deleted, as the coordinator does."""
        for positions in self._committed.values():
            for partition in [tp for tp in positions if tp.topic == topic]:
                del positions[partition]

    def mark_unstable(self, group: str, partition: TopicPartition, unstable: bool = True) -> None:
        """Pretend that a transaction with an offset of this partition is open (or over)."""
        (self._unstable.add if unstable else self._unstable.discard)((group, partition))

    def _exists(self, partition: TopicPartition) -> bool:
        return self._topics is None or partition.partition < self._topics.get(partition.topic, 0)


def _check(request: OffsetCommit, group: ClassicGroup | None) -> int:
    if group is None:
        return GROUP_ID_NOT_FOUND
    if request.generation < 0 and group.state is GroupPhase.EMPTY:
        return OK  # not a member; welcome while there are none
    if request.generation < 0 and not request.member_id and request.instance_id is None:
        return UNKNOWN_MEMBER_ID
    error = group.roster.check(request.member_id, request.instance_id)
    if error != OK:
        return error
    if request.generation != group.generation:
        return ILLEGAL_GENERATION
    if group.state is GroupPhase.COMPLETING:
        return REBALANCE_IN_PROGRESS
    group.keep_alive(group.roster.members[request.member_id])  # a commit is a sign of life
    return OK
