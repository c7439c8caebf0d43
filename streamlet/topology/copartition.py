"""Partition counts: which must be equal, and how many a topic of ours gets.

A task is one partition of every topic that its subtopology reads, of those that have so many: there
are as many tasks as the topic with the most has partitions. Topics whose records meet in a store
must have equal counts, else a join would miss the records that lie in another task. Those of a
merged stream need not, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from streamlet.counted import counted
from streamlet.errors import MissingTopicError, TopologyError
from streamlet.topology.nodes import InternalTopic, SourceNode
from streamlet.topology.subtopologies import Subtopology
from streamlet.user_code import listed


def partition_counts(
    parts: Sequence[Subtopology], source_counts: Mapping[str, int]
) -> dict[str, int]:
    """Partition counts of every input topic.

    A repartition topic gets the count of what it is joined with; else the count given to it, or the
    most partitions of what it is written from (as in Kafka Streams).

    Raises:
        TopologyError: counts of topics that are joined differ, or a count cannot be worked out.
        MissingTopicError: a source topic is not in ``source_counts``.
    """
    ours = {topic.name: topic for part in parts for topic in part.repartitions}
    counts = _given(parts, ours, source_counts)
    there = tuple(source_counts)
    groups = [(part, group) for part in parts for group in joined_topics(part, there)]
    waiting = [(part, group) for part, group in groups if not _settle(part, group, ours, counts)]
    while waiting:
        left = [one for one in waiting if not _inherit(*one, parts, ours, counts, source_counts)]
        if len(left) == len(waiting):
            names = ", ".join(topic for _, group in left for topic in group)
            raise TopologyError(
                f"no partition count for {names}: these topics are written only from each other; "
                "give one of them partitions="
            )
        waiting = left
    for part in parts:
        _check_tables(part, counts)
    return counts


def joined_topics(subtopology: Subtopology, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """The topics a subtopology reads, in groups that need equal counts; most are alone in theirs.

    ``names`` are those of all topics there are, for patterns.
    """
    there = tuple(names)
    groups: list[tuple[str, ...]] = []
    for sources in joined_sources(subtopology):
        topics = [topic for one in sources for topic in subtopology.topics_of(one, there)]
        groups += [tuple(topics)] if len(sources) > 1 else [(topic,) for topic in topics]
    return tuple(filter(None, groups))


def joined_sources(subtopology: Subtopology) -> tuple[tuple[SourceNode, ...], ...]:
    """The sources of a subtopology, in groups whose records meet; most are alone in theirs.

    Records of two sources meet in a store that several nodes have, if not all of these come behind
    the same sources.
    """
    above = _sources_above(subtopology)
    group_of = {source.name: {source.name} for source in subtopology.sources}
    for spec in subtopology.stores:
        having = [above[node.name] for node in subtopology.processors if spec.name in node.stores]
        if any(sources != having[0] for sources in having):
            together = set[str]().union(*(group_of[one] for sources in having for one in sources))
            group_of |= dict.fromkeys(together, together)
    groups = {id(group): group for group in group_of.values()}
    return tuple(
        tuple(source for source in subtopology.sources if source.name in group)
        for group in groups.values()
    )


def _sources_above(subtopology: Subtopology) -> dict[str, frozenset[str]]:
    """The sources whose records may come to each node."""
    found = {source.name: frozenset((source.name,)) for source in subtopology.sources}
    for node in subtopology.processors:
        found[node.name] = frozenset[str]().union(*(found[name] for name in node.parents))
    return found


def _check_tables(subtopology: Subtopology, counts: Mapping[str, int]) -> None:
    """Refuse a table whose topic, which is its changelog, has fewer partitions than tasks."""
    most = subtopology.task_count(counts)
    for spec in subtopology.stores:
        topic = spec.source_topic
        if topic is not None and counts[topic] < most:
            raise TopologyError(
                f"{topic} is read as a table and has {counted(counts[topic], 'partition')}, but "
                f"subtopology {subtopology.id} has {most} tasks, and each needs one of it; send "
                "what is merged with it through repartition()"
            )


def _given(
    parts: Sequence[Subtopology],
    ours: Mapping[str, InternalTopic],
    source_counts: Mapping[str, int],
) -> dict[str, int]:
    there = tuple(source_counts)
    _check_patterns(parts, there)
    read = {topic for part in parts for topic in part.topics_among(there) if topic not in ours}
    missing = sorted(read - set(source_counts))
    if missing:
        alike = {name for one in missing for name in get_close_matches(one, there, n=1)}
        hint = f" (did you mean {' or '.join(sorted(alike))}?)" if alike else ""
        raise MissingTopicError(
            f"source topic does not exist: {listed(missing)}{hint}; create it before the "
            "application starts, for example with streamlet topics create",
            hidden=missing,
        )
    return {topic: source_counts[topic] for topic in sorted(read)}


def _check_patterns(parts: Sequence[Subtopology], names: Sequence[str]) -> None:
    """Refuse topics that two sources read, and patterns without a topic where nothing else runs."""
    reader: dict[str, str] = {}
    for part in parts:
        for source in part.sources:
            for topic in part.topics_of(source, names):
                if topic in reader:
                    raise TopologyError(
                        f"topic {topic} is read by {reader[topic]} and by {source.name}, which "
                        "reads by a pattern; a topic can be read by one source only"
                    )
                reader[topic] = source.name
        if part.patterns and not part.topics_among(names):
            raise MissingTopicError(
                f"no topic matches {' or '.join(map(repr, part.patterns))}; create one before the "
                "application starts, for example with streamlet topics create"
            )


def _settle(
    subtopology: Subtopology,
    group: Sequence[str],
    ours: Mapping[str, InternalTopic],
    counts: dict[str, int],
) -> bool:
    """Fill in a group's counts from source topics and given numbers; False if it has neither."""
    known: dict[str, int] = {}
    for topic in group:
        number = ours[topic].partitions if topic in ours else counts[topic]
        if number is not None:
            known[topic] = number
    if not known:
        return False
    first, number = next(iter(known.items()))
    for topic, other in known.items():
        if other != number:
            raise TopologyError(
                f"{first} has {counted(number, 'partition')} and {topic} has {other}, but "
                f"subtopology {subtopology.id} joins them and needs equal counts; "
                "send one of them through repartition()"
            )
    counts.update(dict.fromkeys(group, number))
    return True


def _inherit(
    subtopology: Subtopology,
    group: Sequence[str],
    parts: Sequence[Subtopology],
    ours: Mapping[str, InternalTopic],
    counts: dict[str, int],
    there: Mapping[str, int],
) -> bool:
    """Give a group the largest count of the parts that write its topics, once all are known.

    A topic of ours that has more keeps them if it is written from a pattern: one that matched may
    have had so many, and be gone.
    """
    read = {topic for topic in group if not ours[topic].follows}
    writers = [
        other
        for other in parts
        if other is not subtopology and read.intersection(other.output_topics)
    ]
    behind = {topic for writer in writers for topic in writer.topics_among(counts)}
    if not behind or not behind <= counts.keys():
        return False
    most = max(counts[topic] for topic in behind)
    if any(writer.patterns for writer in writers):
        most = max(most, *(there.get(topic, 0) for topic in group))
    counts.update(dict.fromkeys(group, most))
    return True
