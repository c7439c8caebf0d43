"""The internal topics a reset makes again or deletes: by the topology, else by their own proof."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing

import attrs

from streamlet.admin.window import GroupWindow
from streamlet.control.topic import applications_of
from streamlet.coordinator.messages import Committed
from streamlet.kafka.ports import NewTopic, TopicInfo
from streamlet.reset.ownership import TopicOwnership, candidates
from streamlet.reset.plan import merged
from streamlet.topology.internal_topics import given_for, internal_topics
from streamlet.topology.names import may_be_of
from streamlet.types import TopicPartition

_REQUEST_MS = 10_000


@attrs.frozen
class InternalTopics:
    """Topics a reset makes again, those it only deletes, and those left as they prove nothing."""

    recreated: tuple[NewTopic, ...]
    removed: tuple[str, ...]
    left: tuple[str, ...]


@attrs.frozen
class InternalTopicFinder:
    """Finds the internal topics of one application."""

    window: GroupWindow

    @property
    def _name(self) -> str:
        return self.window.name

    def find(
        self,
        topics: Mapping[str, TopicInfo],
        committed: Mapping[TopicPartition, Committed],
        pending: Sequence[NewTopic],
    ) -> InternalTopics:
        """Find the application's internal topics.

        Args:
            topics: all there are.
            committed: the group's positions.
            pending: what an unfinished reset was to make, as the control topic has it.

        Raises:
            TimedOutError: records could not be read in time.
            BrokerError: the broker does not answer, or refuses.
        """
        application = self.window.application
        given = application.settings.topics
        needed: tuple[NewTopic, ...] = ()
        if application.topology is not None:
            counts = {name: info.partitions for name, info in topics.items()}
            replication = application.settings.replication_factor
            needed = internal_topics(application.topology, counts, replication, given)
        must = {topic.name for topic in needed}
        # What the broken-off attempt noted is how things were before it; others may have noted it.
        noted = {topic.name: topic for topic in pending if may_be_of(topic.name, self._name)}
        names = set(candidates(topics, self._name)) - must - self._outside(topics)
        ours, uncertain = self._proven(sorted(names), topics, committed, noted)
        gone = noted.keys() - topics.keys() - must
        found = self.window.admin.definitions(sorted({*must, *ours})) | {
            name: topic for name, topic in noted.items() if name in {*must, *ours, *gone}
        }
        foreign = {topic.name for topic in pending} & topics.keys() - must - {*ours}
        left = tuple(sorted({*uncertain, *foreign}))
        if application.topology is None:
            return InternalTopics(tuple(found[name] for name in sorted(found)), (), left)
        wanted = [merged(one, found.get(one.name), given_for(one.name, given)) for one in needed]
        return InternalTopics(tuple(wanted), tuple(ours), left)

    def _outside(self, topics: Iterable[str]) -> set[str]:
        """Topics that the topology reads or writes and that are not its own."""
        topology = self.window.application.topology
        if topology is None:
            return set()
        written = {topic for part in topology.subtopologies for topic in part.output_topics}
        tables = {table.topic for table in topology.global_tables}
        return {*topology.source_topics_among(topics), *written, *tables}

    def _proven(
        self,
        names: Sequence[str],
        topics: Mapping[str, TopicInfo],
        committed: Iterable[TopicPartition],
        noted: Collection[str],
    ) -> tuple[list[str], list[str]]:
        if not names:
            return [], []
        window, read = self.window, {tp.topic for tp in committed}
        with closing(window.source()) as source:
            proof = TopicOwnership(self._name, window.admin, source, window.clock)
            return proof.proven(names, read, self._others(topics), noted)

    def _others(self, topics: Iterable[str]) -> set[str]:
        """Ids of other applications: of every group, and of everything with a control topic."""
        groups = self.window.transport.list_groups(_REQUEST_MS).result()
        known = {one.group for one in groups}
        return (known | applications_of(topics)) - {self._name}
