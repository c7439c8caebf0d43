"""Partition counts: which must be equal, and how many a topic of ours gets.

A task is one partition of every topic its subtopology reads, so these must have equal counts:
otherwise a join or a merged aggregation would miss the records that lie in another task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamlet.errors import MissingTopicError, TopologyError
from streamlet.topology.nodes import InternalTopic
from streamlet.topology.subtopologies import Subtopology


def partition_counts(
    parts: Sequence[Subtopology], source_counts: Mapping[str, int]
) -> dict[str, int]:
    """Partition counts of every input topic.

    A repartition topic gets the count of what is read beside it; read alone, the count given to it,
    or the most partitions of what it is written from (as in Kafka Streams).

    Raises:
        TopologyError: counts in one subtopology differ, or a count cannot be worked out.
        MissingTopicError: a source topic is not in ``source_counts``.
    """
    ours = {topic.name: topic for part in parts for topic in part.repartitions}
    counts = _given(parts, ours, source_counts)
    waiting = [part for part in parts if not _settle(part, ours, counts)]
    while waiting:
        left = [part for part in waiting if not _inherit(part, parts, ours, counts)]
        if len(left) == len(waiting):
            names = ", ".join(topic for part in left for topic in part.input_topics)
            raise TopologyError(
                f"no partition count for {names}: these topics are written only from each other; "
                "give one of them partitions="
            )
        waiting = left
    return counts


def _given(
    parts: Sequence[Subtopology],
    ours: Mapping[str, InternalTopic],
    source_counts: Mapping[str, int],
) -> dict[str, int]:
    read = {topic for part in parts for topic in part.input_topics if topic not in ours}
    missing = sorted(read - set(source_counts))
    if missing:
        raise MissingTopicError(
            f"source topic does not exist: {', '.join(missing)}; create it before the application "
            "starts, for example with streamlet topics create"
        )
    return {topic: source_counts[topic] for topic in sorted(read)}


def _settle(part: Subtopology, ours: Mapping[str, InternalTopic], counts: dict[str, int]) -> bool:
    """Fill in the part's counts from source topics and given numbers; False if it has neither."""
    known: dict[str, int] = {}
    for topic in part.input_topics:
        number = ours[topic].partitions if topic in ours else counts[topic]
        if number is not None:
            known[topic] = number
    if not known:
        return False
    first, number = next(iter(known.items()))
    for topic, other in known.items():
        if other != number:
            raise TopologyError(
                f"{first} has {number} partitions and {topic} has {other}, but subtopology "
                f"{part.id} reads both and needs equal counts; "
                "send one of them through repartition()"
            )
    counts.update(dict.fromkeys(part.input_topics, number))
    return True


def _inherit(
    part: Subtopology,
    parts: Sequence[Subtopology],
    ours: Mapping[str, InternalTopic],
    counts: dict[str, int],
) -> bool:
    """Give the part the largest count of the parts that write its topics, once all are known."""
    read = {topic for topic in part.input_topics if not ours[topic].follows}
    writers = [
        other for other in parts if other is not part and read.intersection(other.output_topics)
    ]
    if any(writer.input_topics[0] not in counts for writer in writers) or not writers:
        return False
    number = max(counts[writer.input_topics[0]] for writer in writers)
    counts.update(dict.fromkeys(part.input_topics, number))
    return True
