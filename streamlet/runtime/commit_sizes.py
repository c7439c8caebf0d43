"""Checks at the start that the text of each commit will fit into what the broker takes."""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.config import Settings
from streamlet.coordinator.commit_metadata import METADATA_MAX_BYTES
from streamlet.coordinator.commit_texts import LIMIT, longest_text
from streamlet.errors import TopologyError
from streamlet.logs import get_logger
from streamlet.state.log_numbers import same_numbers
from streamlet.topology.edges import edges_of, sources_into
from streamlet.topology.graph import Topology

log = get_logger(__name__)


def check_commits(
    topology: Topology, counts: Mapping[str, int], limit: int | None, settings: Settings
) -> None:
    """Refuse a topology whose commits may get longer than the broker takes.

    Where the broker does not tell how much that is, they are compared with Kafka's default, and
    what is longer is said.

    Args:
        topology: the application's.
        counts: partitions of its topics.
        limit: the bytes that a broker takes, as ``commit_limit`` gives them.
        settings: the application's.

    Raises:
        TopologyError: they may get longer.
    """
    exact = settings.repartition_exact
    edges = edges_of(topology, counts if exact else None)
    prefixed = {edge.topic for edge in edges if edge.exact}
    waits = {edge.topic for edge in edges if edge.after_commit}
    for part in topology.subtopologies:
        if same := same_numbers(part.changelog_topics):
            raise TopologyError(
                f"the changelogs {' and '.join(same)} get the same number in commits; rename one "
                "of their stores"
            )
        meeting = [
            sum(counts[name] for name in sources_into(topology, topic.name))
            for topic in part.repartitions
            if exact and topic.name in prefixed
        ]
        sources = max(meeting, default=0)
        size = longest_text(
            part.changelog_topics,
            sources,
            signs=not waits.isdisjoint(part.output_topics),
            between=len({edge.topic for edge in edges}.intersection(part.output_topics)),
        )
        if size <= (METADATA_MAX_BYTES if limit is None else limit):
            continue
        text = (
            f"a commit of subtopology {part.id} may take {size} bytes beside each position, for "
            f"{len(part.changelog_topics)} changelogs and {sources} input partitions whose records "
            "meet in a repartition topic"
        )
        if limit is not None:
            raise TopologyError(
                f"{text}; the brokers take {limit}: raise their {LIMIT} to {size} or more, or use "
                "fewer stores in one subtopology"
            )
        log.warning(
            "%s; brokers take %d by default, and do not say whether their %s is another",
            *(text, METADATA_MAX_BYTES, LIMIT),
        )
