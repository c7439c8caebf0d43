"""The topics there are: checked at the start, looked at again while the leader plans with them.

Before the first record: are the topics there, do they fit, did the topology change? Every process
that starts asks; creating a topic that another one creates at the same moment is not an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

import attrs

from streamlet.assignor.values import TaskInfo
from streamlet.config import Settings
from streamlet.coordinator.commit_texts import TextRules, commit_limit
from streamlet.errors import BrokerError, MissingTopicError, TopologyError
from streamlet.kafka.limits import NO_LIMITS, AskSettings, TopicLimits
from streamlet.kafka.ports import Admin
from streamlet.logs import get_logger
from streamlet.runtime.commit_sizes import check_commits
from streamlet.runtime.remade_topics import make_right
from streamlet.runtime.topic_counts import check_count
from streamlet.runtime.topic_settings import broker_timed, deleting_tables, unapplied_settings
from streamlet.topology.graph import Topology
from streamlet.topology.internal_topics import (
    PURGING_CONFIG,
    Given,
    changelog_topics,
    expiring_changelogs,
    internal_topics,
    known_settings,
)
from streamlet.topology.moved import check_moved
from streamlet.topology.names import may_be_of
from streamlet.types import TaskId, TopicPartition

log = get_logger(__name__)

#: Inputs that a report in the control topic names at most: a record there stays small.
MOST_REPORTED = 500


@attrs.define(eq=False)
class Catalog:
    """Partition counts of the topology's topics, and the tasks that follow from them.

    ``tasks`` is called by the control thread, ``inputs_of`` and ``came_later`` by any, everything
    else by the worker.

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
    #: The tasks as of the last look that a broker did not end.
    _reported: tuple[TaskInfo, ...] = attrs.field(default=(), init=False)
    #: Partitions by topic; ids of the topics that are read.
    counts: dict[str, int] = attrs.field(factory=dict, init=False)
    topic_ids: dict[str, str] = attrs.field(factory=dict, init=False)
    #: Inputs that were found to be gone, or to have other ids.
    _remade: set[str] = attrs.field(factory=set, init=False)
    #: True from when a changelog lost records until the next look: it may be another topic now.
    doubted: bool = attrs.field(default=False, init=False)
    #: What the texts beside committed positions may be.
    texts: TextRules = attrs.field(factory=TextRules, init=False)
    _next_look_ms: int | None = attrs.field(default=None, init=False)
    #: What topics that are written do not take.
    limits: TopicLimits = attrs.field(default=NO_LIMITS, init=False)
    #: Partitions of the inputs with which the instance began.
    _first: dict[str, int] | None = attrs.field(default=None, init=False)
    #: Partitions of the topics that each subtopology reads.
    _read: dict[int, dict[str, int]] = attrs.field(factory=dict, init=False)
    #: The topics that are read, each with its partitions; None: more than a report takes.
    reported_inputs: tuple[tuple[str, int], ...] | None = attrs.field(default=None, init=False)

    def prepare(self, before: Callable[[], None] | None = None) -> None:
        """Check topics, and create those that are ours.

        Args:
            before: called when all topics are checked and none is made; may refuse the start.

        Raises:
            BrokerError: the broker does not answer, or lacks a topic.
            ConfigError: a setting is given for a topic that the application does not make.
            TopologyError: the topology does not fit the topics.
        """
        try:
            self._take(self._prepared(before))
        except TopologyError as error:
            if self._known is None:
                raise
            counts = {name: info.partitions for name, info in self._admin.topics().items()}
            known = self._known.items()
            self._take({**counts, **{t: n for t, n in known if t in counts or t in self._named}})
            self._tell_refused(error)
        self._reported = self._tasks
        self.topic_ids = self._admin.topic_ids(sorted(self.inputs))
        self.texts.max_bytes = commit_limit(self._admin)
        if self._known is None:  # else the instance has said so
            check_commits(self._topology, self.counts, self.texts.max_bytes, self._settings)
            self._tell_unapplied()
            self._tell_left_over()
            for table in deleting_tables(self._topology, self._admin):
                log.warning("%s", table)
            for topic in sorted(self._topology.output_topics - self.counts.keys()):
                log.warning(
                    "topic %r is written and does not exist, or may not be seen: create it, for "
                    "example with streamlet topics create, else its first record fails",
                    topic,
                )
            for topic in broker_timed(self._topology, self._admin):
                log.warning("%s", topic)

    def _prepared(self, before: Callable[[], None] | None = None) -> dict[str, int]:
        return prepare_topics(
            self._topology,
            self._admin,
            replication=self._settings.replication_factor,
            given=self._settings.topics,
            before=before,
        )

    @property
    def topology(self) -> Topology:
        """The application's topology."""
        return self._topology

    def learn_limits(self, dead_letters: Iterable[str]) -> None:
        """Read which records the topics that are written take, those of dead letters included.

        Raises:
            BrokerError: the broker does not answer.
        """
        parts = self._topology.subtopologies
        written = {topic for part in parts for topic in part.output_topics + part.changelog_topics}
        written.update(dead_letters)
        found = self._admin.topic_settings(sorted(written))
        self.limits = TopicLimits.of(found, self._settings.client_config("producer"))

    @property
    def ask_settings(self) -> AskSettings:
        """Reads settings of topics."""
        return self._admin.topic_settings

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

    def came_later(self, partition: TopicPartition) -> bool:
        """True if an input was not there when the instance began; from any thread."""
        return partition.partition >= (self._first or {}).get(partition.topic, 0)

    def was_remade(self, partition: TopicPartition) -> bool:
        """True if the topic was deleted, and perhaps made again, since the start; any thread."""
        return partition.topic in self._remade

    def check_named(self, topics: Collection[str]) -> None:
        """Refuse to go on without these topics, if one of them is read by its name and is gone.

        It may have been made again by now.

        Raises:
            BrokerError: one is.
        """
        doubtful = {topic for topic in topics if topic in self._named}
        if named := sorted(doubtful and doubtful - self._admin.topics().keys()):
            raise BrokerError(
                f"{' and '.join(named)} does not exist any more, and the application reads it: "
                "create it again"
            )

    @property
    def _named(self) -> frozenset[str]:
        return frozenset((*self._topology.source_topics, *self._topology.repartition_topics))

    def look(self, now_ms: int, *, at_once: bool = False) -> bool:
        """Look again, at most once each ``metadata.max.age.ms``; True if there are other tasks now.

        Counts that the topology cannot run with (a stateful subtopology would outgrow its
        changelog) are refused: the tasks there are go on. A topic that a pattern matched and that
        is gone is not read any more. A changelog that is gone is made again: a task that is about
        to begin waits for it, and its owner may be gone or have lost it.

        Raises:
            BrokerError: the broker does not answer, or lost a topic.
        """
        if self._next_look_ms is None:
            self._next_look_ms = now_ms + self._settings.metadata_max_age_ms
        if now_ms < self._next_look_ms and not (at_once or self.doubted):
            return False
        self._next_look_ms = now_ms + self._settings.metadata_max_age_ms
        counts = {name: info.partitions for name, info in self._admin.topics().items()}
        self._look_for_made_again()
        self._leave_out(counts)
        needed = self._named.union(changelog_topics(self._topology))
        if self.doubted or self._read_among(counts) != self._read or not needed <= counts.keys():
            try:
                self._take(self._prepared())
            except TopologyError as error:
                self._tell_refused(error)
            self.doubted = False
        changed, self._reported = self._tasks != self._reported, self._tasks
        return changed

    def _leave_out(self, counts: Mapping[str, int]) -> None:
        """Remove deleted topics that only a pattern matched, with a warning."""
        gone = set(self.inputs) - self._named - counts.keys()
        if not gone:
            return
        self._set_read(
            {
                part: {topic: count for topic, count in read.items() if topic not in gone}
                for part, read in self._read.items()
            }
        )
        self.counts = {topic: n for topic, n in self.counts.items() if topic not in gone}
        for topic in gone:  # should it come back, all its records came later
            (self._first or {}).pop(topic, None)
            self.topic_ids.pop(topic, None)
            self._remade.add(topic)
        left = tuple(one for one in self._tasks if self.inputs_of(one.task))
        ended = [str(one.task) for one in self._tasks if one not in left]
        self._tasks = left
        log.warning(
            "%s, which a pattern matched, does not exist any more: its partitions are not read, "
            "and what came of it stays in the stores of its tasks, which go on%s",
            " and ".join(sorted(gone)),
            f"; without another input end, and keep their changelogs: {', '.join(ended)}"
            if ended
            else "",
        )

    def _look_for_made_again(self) -> None:
        """Warn of topics that were deleted and made again since the last look."""
        between = self._topology.repartition_topics
        found = self._admin.topic_ids([one for one in self.inputs if one not in between])
        for topic in sorted(found):
            if self.topic_ids.get(topic, found[topic]) != found[topic]:
                log.warning(
                    "%s was deleted and made again: its tasks begin at its first record once they "
                    "have committed; what came of the records before stays in their stores",
                    topic,
                )
                self._remade.add(topic)
        self.topic_ids |= found

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

    def _tell_left_over(self) -> None:
        """Name topics that a pattern matches and that an earlier version may have made."""
        application = self._topology.application
        for topic in self.inputs:
            if topic not in self._named and may_be_of(topic, application):
                log.warning(
                    "%s is read, since a pattern matches it; if an earlier version of %s made it, "
                    "delete it (streamlet reset module:attribute does) or change the pattern",
                    *(topic, application),
                )

    def _take(self, counts: dict[str, int]) -> None:
        self.counts = counts
        tasks = tuple(
            TaskInfo(task, self._topology.subtopology(task.subtopology).stateful)
            for task in self._topology.tasks(counts)
        )
        if self._topology.subtopologies and not tasks:
            raise TopologyError("the topology has no task: its topics have no partitions")
        self._set_read(self._read_among(counts))
        if self._first is None:
            begun = counts if self._known is None else self._known
            self._first = {topic: begun[topic] for topic in self.inputs if topic in begun}
        self._tasks = tasks

    def _set_read(self, read: dict[int, dict[str, int]]) -> None:
        self._read = read
        all_read = {topic: number for part in read.values() for topic, number in part.items()}
        few = len(all_read) <= MOST_REPORTED
        self.reported_inputs = tuple(sorted(all_read.items())) if few else None

    def _read_among(self, counts: Mapping[str, int]) -> dict[int, dict[str, int]]:
        return {
            part.id: {
                topic: counts[topic] for topic in part.topics_among(counts) if topic in counts
            }
            for part in self._topology.subtopologies
        }


# -- before the first record --------------------------------------------------------------------


def prepare_topics(
    topology: Topology,
    admin: Admin,
    *,
    replication: int = -1,
    given: Given | None = None,
    before: Callable[[], None] | None = None,
) -> dict[str, int]:
    """Create the internal topics that are missing; partition counts of all topics of the topology.

    ``given`` are settings of internal topics, as in ``internal_topics``; ``before`` as of
    ``Catalog.prepare``.

    Raises:
        ConfigError: a setting is given for a topic that the application does not make.
        BrokerError: the broker does not answer.
        MissingTopicError: a source topic does not exist.
        TopologyError: counts do not match, an unnamed store has moved, or an internal topic stems
            from another number of partitions.
    """
    existing = admin.topics()
    counts = {name: info.partitions for name, info in existing.items()}
    missing = sorted(topology.topics_with_origins - counts.keys())
    if missing:
        raise MissingTopicError(
            f"topic {missing[0]!r} is written with origins and does not exist; create it",
            hidden=missing[:1],
            operation="WRITE",
        )
    made = internal_topics(topology, counts, replication, given)
    check_moved(topology, topology.application, tuple(existing))
    sources = sorted(topology.source_topics & counts.keys())
    wanted = known_settings(made, admin.topic_settings(sources[:1]))
    counts |= make_right(wanted, counts, admin)
    for topic in wanted:
        check_count(topology, topic, counts)
    if before is not None:
        before()
    admin.create_topics([topic for topic in wanted if topic.name not in counts])
    _allow_purging(expiring_changelogs(topology) & counts.keys(), admin)
    return {**{topic.name: topic.partitions for topic in wanted}, **counts}


def _allow_purging(changelogs: Iterable[str], admin: Admin) -> None:
    """Let records be deleted of changelogs that a version made which never deleted any."""
    found = admin.topic_settings(sorted(changelogs))
    old = [topic for topic, has in found.items() if has.get("cleanup.policy") == "compact"]
    refused = admin.alter_topics({topic: dict(PURGING_CONFIG) for topic in old})
    for topic in old:
        log.log(
            logging.WARNING if topic in refused else logging.INFO,
            "%s was made with cleanup.policy=compact, which keeps expired windows for ever; %s",
            topic,
            f"change it, with {_purging()}: {refused[topic]}"
            if topic in refused
            else f"it has {_purging()} now",
        )


def _purging() -> str:
    return ", ".join(f"{name}={value}" for name, value in PURGING_CONFIG)
