"""The offsets at which a plain consumer begins without a committed position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamlet.kafka.ports import Admin
from streamlet.types import TopicPartition


def first_offsets(
    admin: Admin, partitions: Sequence[TopicPartition], policy: str, counts: Mapping[str, int]
) -> dict[TopicPartition, int]:
    """The offsets to begin at under ``earliest`` or ``latest``.

    A partition that was added while the consumer ran begins at its first record under ``latest``
    too: its records came after the consumer.

    Args:
        admin: knows where partitions begin and end.
        partitions: those without a committed position.
        policy: ``auto.offset.reset``.
        counts: partitions of each topic when the consumer began.

    Raises:
        BrokerError: the broker does not answer.
    """
    ends = [
        tp for tp in partitions if policy == "latest" and tp.partition < counts.get(tp.topic, 0)
    ]
    starts = [tp for tp in partitions if tp not in ends]
    found = admin.readable_ends(ends) if ends else {}
    return {**found, **(admin.start_offsets(starts) if starts else {})}
