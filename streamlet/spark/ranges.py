"""How far a micro-batch reads, when it may not read all there is."""

from __future__ import annotations

from collections.abc import Mapping

#: Next offset by topic and partition, as JSON has it.
Ends = dict[str, dict[str, int]]


def capped(
    start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]], most: int | None
) -> Ends:
    """Where to stop: at the ends, or so that about ``most`` offsets lie before it.

    Each partition gets a share by what is left in it, and one with anything left at least one.
    Never before ``start``, though a topic may have been cut or made anew: then nothing is read.
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
