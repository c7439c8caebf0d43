"""The topics there are: checked at the start, looked at again while the leader plans with them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import attrs

from streamlet.assignor.values import TaskInfo
from streamlet.config import Settings
from streamlet.errors import TopologyError
from streamlet.kafka.limits import NO_LIMITS, TopicLimits
from streamlet.kafka.ports import Admin
from streamlet.runtime.prepare import deleting_tables, prepare_topics, unapplied_settings
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class Catalog:
    """Partition counts of the topology's topics, and the tasks that follow from them.

    ``tasks`` is called by the control thread, ``inputs_of`` by any, everything else by the worker.

    Args:
        topology: the application's.
        admin: knows the topics.
        settings: the application's.
        known: partition counts with which the instance of this worker runs already, if it does: it
            goes on with them where those that are there now would be refused.
    """

    _topology: Topology
    _admin: Admin
    _settings: Settings
    _known: Mapping[str, int] | None = None
    _tasks: tuple[TaskInfo, ...] = attrs.field(default=(), init=False)
    #: Partitions by topic; ids of the topics that are read.
    counts: dict[str, int] = attrs.field(factory=dict, init=False)
    topic_ids: dict[str, str] = attrs.field(factory=dict, init=False)
    _next_look_ms: int | None = attrs.field(default=None, init=False)
    #: What topics that are written take less than the producer.
    limits: TopicLimits = attrs.field(default=NO_LIMITS, init=False)
    #: Partitions of the topics that each subtopology reads.
    _read: dict[int, dict[str, int]] = attrs.field(factory=dict, init=False)

    def prepare(self) -> None:
        """Check topics, and create those that are ours.

        Raises:
            BrokerError: the broker does not answer, or lacks a topic.
            ConfigError: a setting is given for a topic that the application does not make.
            TopologyError: the topology does not fit the topics.
        """
        try:
            self._take(self._prepared())
        except TopologyError as error:
            if self._known is None:
                raise
            counts = {name: info.partitions for name, info in self._admin.topics().items()}
            self._take({**counts, **self._known})
            self._tell_refused(error)
        self.topic_ids = self._admin.topic_ids(sorted(self.inputs))
        if self._known is None:  # else the instance has said so
            self._tell_unapplied()
            for table in deleting_tables(self._topology, self._admin):
                log.warning("%s", table)

    def _prepared(self) -> dict[str, int]:
        return prepare_topics(
            self._topology,
            self._admin,
            replication=self._settings.replication_factor,
            given=self._settings.topics,
        )

    def learn_limits(self, dead_letters: Iterable[str]) -> None:
        """Read how large records may be in the topics that are written, dead letters included.

        Raises:
            BrokerError: the broker does not answer.
        """
        parts = self._topology.subtopologies
        written = {topic for part in parts for topic in part.output_topics + part.changelog_topics}
        written.update(dead_letters)
        found = self._admin.largest_records(sorted(written))
        self.limits = TopicLimits.of(found, self._settings.client_config("producer"))

    def tasks(self) -> tuple[TaskInfo, ...]:
        """Every task there is, in order."""
        return self._tasks

    def inputs_of(self, task: TaskId) -> tuple[TopicPartition, ...]:
        """The input partitions of a task, as far as its topics have so many; from any thread."""
        read = self._read.get(task.subtopology)
        if read is None:  # of a member whose topology has more
            return ()
        return self._topology.subtopology(task.subtopology).inputs(task.partition, read)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Topics that are read, those that match a pattern now included; from any thread."""
        return tuple(sorted({topic for read in self._read.values() for topic in read}))

    def look(self, now_ms: int) -> bool:
        """Look again, at most once each ``metadata.max.age.ms``; whether there are other tasks now.

        Counts that the topology cannot run with (a stateful subtopology would outgrow its
        changelog) are refused: the tasks there are go on.

        Raises:
            BrokerError: the broker does not answer, or lost a topic.
        """
        if self._next_look_ms is None:
            self._next_look_ms = now_ms + self._settings.metadata_max_age_ms
        if now_ms < self._next_look_ms:
            return False
        self._next_look_ms = now_ms + self._settings.metadata_max_age_ms
        counts = {name: info.partitions for name, info in self._admin.topics().items()}
        by_name = {*self._topology.source_topics, *self._topology.repartition_topics}
        if self._read_among(counts) == self._read and by_name <= counts.keys():
            return False
        before = self._tasks
        try:
            self._take(self._prepared())
        except TopologyError as error:
            self._tell_refused(error)
        return self._tasks != before

    def _tell_refused(self, error: TopologyError) -> None:
        log.error(
            "the %d tasks there are go on, other partitions are not read, and an instance that "
            "starts is refused: %s",
            len(self._tasks),
            error,
        )

    def _tell_unapplied(self) -> None:
        for difference in unapplied_settings(self._topology, self._admin, self._settings.topics):
            log.warning(
                "%s: settings are applied when a topic is created; kafka-configs.sh changes it",
                difference,
            )

    def _take(self, counts: dict[str, int]) -> None:
        self.counts = counts
        tasks = tuple(
            TaskInfo(task, self._topology.subtopology(task.subtopology).stateful)
            for task in self._topology.tasks(counts)
        )
        if not tasks:
            raise TopologyError("the topology has no task: its topics have no partitions")
        self._read = self._read_among(counts)
        self._tasks = tasks

    def _read_among(self, counts: Mapping[str, int]) -> dict[int, dict[str, int]]:
        return {
            part.id: {
                topic: counts[topic] for topic in part.topics_among(counts) if topic in counts
            }
            for part in self._topology.subtopologies
        }
