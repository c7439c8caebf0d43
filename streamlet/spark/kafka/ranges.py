"""The ranges of micro-batches that may not read all there is, and the tasks that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from streamlet.types import TopicPartition

#: A Spark task costs what it costs to read about so many records.
_RECORDS_PER_TASK = 5_000
#: A range of so many records costs less where they are processed, with a client that begins there.
HANDED_ON = 5_000

#: Next offset by topic and partition, as JSON has it.
Ends = dict[str, dict[str, int]]


def capped(
    start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]], most: int | None
) -> Ends:
    """End offsets of a batch of about ``most`` records.

    Each partition gets a share by what is left in it, and one with anything left at least one.
    Never before ``start``, though a topic may have been cut or created again: then nothing is read.
    """
    left = {
        (topic, partition): max(0, end[topic].get(partition, offset) - offset)
        for topic, partitions in start.items()
        for partition, offset in partitions.items()
    }
    total = sum(left.values())
    if most is not None and total > most:
        left = {where: -(-count * most // total) for where, count in left.items()}
    return {
        topic: {
            partition: offset + left[topic, partition] for partition, offset in partitions.items()
        }
        for topic, partitions in start.items()
    }


@attrs.frozen
class Range:
    """Records of one partition, ``begin`` to ``end`` (exclusive)."""

    where: TopicPartition
    begin: int
    end: int


def shared_out(ranges: Sequence[Range]) -> list[tuple[Range, ...]]:
    """Ranges by the Spark task that reads them: a task for each, or few tasks for few records."""
    tasks = min(len(ranges), -(-sum(one.end - one.begin for one in ranges) // _RECORDS_PER_TASK))
    return [tuple(ranges[at::tasks]) for at in range(tasks)]
