"""Refuses a topology whose unnamed stores or repartition topics moved since it last ran.

A made-up name ends in the number of a node. When a node is added above, the number changes, the
store gets another changelog, and what it held would silently be gone. So when a topic that a
made-up name stands for is not there, but one is left over that differs in the number only, the
user has to decide.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamlet.config.optimizations import MERGE_REPARTITION_TOPICS
from streamlet.errors import TopologyError
from streamlet.topology.graph import Topology
from streamlet.topology.names import internal_suffix, is_numbered, stem


def check_moved(topology: Topology, application: str, existing_topics: Iterable[str]) -> None:
    """Compare the topology's unnamed internal topics with those that exist.

    Raises:
        TopologyError: one moved, or another one replaces it; both names and what to do are in the
            message.
    """
    existing = set(existing_topics)
    needed = {*topology.repartition_topics}
    for part in topology.subtopologies:
        needed.update(part.changelog_topics)
    left_over = sorted(
        topic
        for topic in existing - needed
        if topic.startswith(f"{application}-") and is_numbered(_name(topic))
    )
    moves = [
        f"{old} became {new}"
        for new in sorted(_unnamed(topology) - existing)
        for old in left_over
        if internal_suffix(old) == internal_suffix(new) and stem(_name(old)) == stem(_name(new))
    ]
    _check_replaced(topology, existing)
    if moves:
        raise TopologyError(
            f"the topology of {application!r} changed under its state: {'; '.join(moves)}. What "
            "the old topic holds would be lost: give the store or repartition topic a name "
            "(store=, name=), or undo the change, or give streamlet reset "
            "module:attribute to start again"
        )


def _check_replaced(topology: Topology, existing: set[str]) -> None:
    """Refuse to leave records behind in topics that ``topology.optimization`` replaces."""
    for change in topology.optimizations:
        left = sorted(existing.intersection(change.replaced))
        if left and change.rule == MERGE_REPARTITION_TOPICS:
            raise TopologyError(
                f"topology.optimization sends through {change.kept} what went through "
                f"{', '.join(left)}: records that wait there would be lost, and stores of two "
                "tasks would be in one. Run with the setting as it was, or stop all instances and "
                "give streamlet reset module:attribute, with the setting, to start again"
            )


def _unnamed(topology: Topology) -> set[str]:
    topics = {
        topic.name
        for part in topology.subtopologies
        for topic in part.repartitions
        if not topic.named
    }
    for part in topology.subtopologies:
        for spec in part.stores:
            changelog = part.changelog_topic(spec.name)
            if not spec.named and spec.source_topic is None and changelog is not None:
                topics.add(changelog)
    return topics


def _name(topic: str) -> str:
    return topic.removesuffix(internal_suffix(topic))
