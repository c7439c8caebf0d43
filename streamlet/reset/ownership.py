"""The proof that an application made a topic: a reset empties or deletes no other topics.

A name proves nothing. A user's topic may begin with the application's id and end in ``-changelog``,
and what stands beside committed positions or in the control topic can be written by others, and so
can records. So a name only makes a topic a candidate, and two things decide together:

- its settings, which a right to write to it does not allow to change, are those of streamlet;
- its records tell whose it is: a changelog bears commit entries (``state.entries``) with the
  application's id and its own name, a repartition topic the prefix of ``processing.edges.records``;
  one without prefixes has to be read by the application's group.

A topic with a made-up name that nothing was ever written to loses nothing.

Topics that the given topology has need no proof.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from streamlet.clock import Clock
from streamlet.errors import StateError, TimedOutError
from streamlet.kafka.ports import Admin, NewTopic, PartitionBatch, RecordSource
from streamlet.kafka.reading import read_until
from streamlet.processing.edges.held_records import MARK
from streamlet.processing.edges.records import unpack
from streamlet.state.changelog import is_timed, number_at
from streamlet.state.entries import CommitEntry
from streamlet.topology.internal_topics import CHANGELOG_CONFIG, REPARTITION_CONFIG
from streamlet.topology.names import CHANGELOG_SUFFIX, is_made_up, may_be_of
from streamlet.types import NO_STATE, TopicPartition

#: How many of the newest offsets of each partition are looked through for a proof.
LOOKED_AT = 1_000
#: Settings of a repartition topic that no other program gives its topics by chance.
_REPARTITION = {
    key: value for key, value in REPARTITION_CONFIG if key in ("retention.ms", "segment.bytes")
}
#: The same of a changelog.
_CHANGELOG = {
    key: value
    for key, value in CHANGELOG_CONFIG
    if key in ("message.timestamp.type", "min.compaction.lag.ms")
}
_LIMIT_MS = 15_000


def candidates(topics: Iterable[str], application: str) -> list[str]:
    """Topics that may be internal ones of an application by their names alone, sorted."""
    return sorted(topic for topic in topics if may_be_of(topic, application))


def makers(batches: Iterable[PartitionBatch], topic: str) -> set[str]:
    """The applications that commit entries of a changelog name.

    An entry that does not name the topic it lies in is a copy from another one, and one whose
    application has no topic of this name is no owner's.
    """
    found = set()
    for batch in batches:
        for headers in batch.headers or ():
            entry = CommitEntry.of(NO_STATE, headers) if headers else None
            if entry is None or entry.application in found or not entry.application:
                continue
            if may_be_of(topic, entry.application) and topic in entry.named([topic]).written:
                found.add(entry.application)
    return found


@attrs.frozen
class TopicOwnership:
    """Tells internal topics of one application from others, by what lies in them.

    Args:
        application: its id.
        admin: knows topics and their settings.
        source: reads records, with headers.
        clock: bounds the reading.
    """

    application: str
    admin: Admin
    source: RecordSource
    clock: Clock

    def proven(
        self,
        names: Sequence[str],
        read: Collection[str],
        others: Collection[str],
        noted: Collection[str],
    ) -> tuple[list[str], list[str]]:
        """The topics that are certainly the application's own, and the uncertain ones.

        Topics of another application are in neither.

        Args:
            names: topics that exist, each ``may_be_of`` the application.
            read: topics in which its group has committed positions.
            others: ids of other groups and applications; the longest id that fits has a topic, and
                records that say otherwise, which others may have written, make it uncertain.
            noted: topics that an unfinished reset was to make; beside their settings records that
                only streamlet writes prove these, commit entries or not.

        Raises:
            TimedOutError: the records could not be read in time.
            BrokerError: the broker does not answer, or refuses.
        """
        longer = [one for one in others if one.startswith(f"{self.application}-")]
        definitions = self.admin.definitions(names)
        ours: list[str] = []
        uncertain: list[str] = []
        for name in sorted(definitions):
            batches, written = self._newest(definitions[name])
            named = makers(batches, name)
            if any(may_be_of(name, one) for one in longer):
                if self.application in named:
                    uncertain.append(name)
                continue
            if not written:
                certain = name in noted or is_made_up(self.application, name)
            elif name.endswith(CHANGELOG_SUFFIX):
                told = named == {self.application} or (name in noted and not named)
                certain = told and _has(definitions[name], _CHANGELOG)
                certain = certain and (bool(named) or _all_ours(batches))
            else:
                certain = _has(definitions[name], _REPARTITION)
                certain = certain and (name in read or _bears_prefixes(batches))
            (ours if certain else uncertain).append(name)
        return ours, uncertain

    def _newest(self, topic: NewTopic) -> tuple[list[PartitionBatch], bool]:
        """The newest records, the newest batch first; and whether any was ever written."""
        partitions = [TopicPartition(topic.name, p) for p in range(topic.partitions)]
        starts = self.admin.start_offsets(partitions)
        ends = self.admin.end_offsets(partitions)
        begins = {tp: max(starts[tp], ends[tp] - LOOKED_AT) for tp in partitions}
        reading = read_until(
            self.source, ends, begins=begins, clock=self.clock, silent_ms=_LIMIT_MS
        )
        try:
            found = list(reading)
        except TimedOutError as error:
            raise TimedOutError(
                f"{topic.name}: {error}, so it is not known whether {self.application} made it; "
                "nothing was changed"
            ) from error
        return found[::-1], any(ends.values())


def _all_ours(batches: Sequence[PartitionBatch]) -> bool:
    """True if each of these changelog records bears a number as streamlet alone writes it."""
    for batch in batches:
        for row in range(len(batch)):
            try:
                _, prefix = number_at(batch.topic, row, batch)
            except StateError:
                return False
            if not is_timed(prefix):
                return False
    return True


def _bears_prefixes(batches: Sequence[PartitionBatch]) -> bool:
    newest = [value for batch in batches for value in batch.values[-1:]]
    return any(unpack([value]) is not None or (value or b"").startswith(MARK) for value in newest)


def _has(topic: NewTopic, settings: Mapping[str, str]) -> bool:
    """True if a topic has all of these settings as its own."""
    config = dict(topic.config)
    return all(config.get(key) == value for key, value in settings.items())
