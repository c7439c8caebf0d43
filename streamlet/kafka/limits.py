"""Topics that take smaller records than the producer does, or not every time.

The broker measures batches, and turns away the whole one; which record was too large it does not
say, and it says it after everything behind it was queued. So what is known of topics is heeded
before: batches are kept small enough, and a record that is too large is refused as the producer
refuses one, on its own and with its place. The limits are read at the start; a worker ends, naming
the limit, where one was lowered since, and starts again with the new one.

The times of records are heeded likewise: since Kafka 4 a topic refuses the whole batch that has a
record whose time is more than an hour ahead of the broker's clock. So are keys, which each record
of a compacted topic has to have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import attrs

from streamlet.clock import Clock
from streamlet.columnwise import highest_time
from streamlet.errors import BrokerError, RecordRefusedError
from streamlet.kafka.ports import Headers, OutgoingRecords
from streamlet.logs import get_logger
from streamlet.types import LATEST_MS

log = get_logger(__name__)

#: The producer's ``message.max.bytes`` unless it is set.
LARGEST_RECORD = 1_000_000

#: What a batch of one record takes beside key, value and headers, at most: 61 bytes for the batch,
#: and the record's own lengths, time and offset as varints.
_OVERHEAD_BYTES = 61 + 27
_HEADER_BYTES = 10

_SIZE, _POLICY = "max.message.bytes", "cleanup.policy"

_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
#: Both, before Kafka 3.6.
_DIFFERENCE = "message.timestamp.difference.max.ms"


@attrs.frozen
class TimeLimit:
    """The span of times that a topic takes: so many ms before and after the time of its broker.

    The clock of this host stands for the broker's.
    """

    before_ms: int
    after_ms: int

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> TimeLimit | None:
        """The limit on timestamps of a topic with these settings; None without one."""
        if settings.get("message.timestamp.type", "CreateTime") != "CreateTime":
            return None
        both = settings.get(_DIFFERENCE, LATEST_MS)
        before, after = (int(settings.get(name, both)) for name in (_BEFORE, _AFTER))
        return None if min(before, after) >= LATEST_MS else cls(before, after)

    def first_refused(self, times: Sequence[int], now_ms: int) -> int | None:
        """The place of the first time that is refused."""
        earliest, latest = now_ms - self.before_ms, now_ms + self.after_ms
        old = self.before_ms < LATEST_MS  # seldom: Kafka's default takes every time that is past
        early = old and times and min(times) < earliest
        if not times or (highest_time(list(times)) <= latest and not early):
            return None
        return next(at for at, time in enumerate(times) if not earliest <= time <= latest)

    def reason(self, time: int, now_ms: int) -> str:
        """The words on a time that is refused."""
        ahead = time - now_ms
        where, name, most = (
            ("ahead of", _AFTER, self.after_ms)
            if ahead > 0
            else ("behind", _BEFORE, self.before_ms)
        )
        far = f"{abs(ahead):,} ms {where} the clock of this host"
        return f"its time, {time}, is {far}, and the topic's {name} is {most:,}"


@attrs.frozen
class TopicLimits:
    """``by_topic`` are those that refuse records; ``settings`` keep the producer's batches small.

    A compressed record may fit although it is larger, so that with compression nothing is refused.
    ``times`` are the topics that do not take every time, ``keyed`` those that take no record
    without a key. ``known`` are all that were asked for.
    """

    by_topic: Mapping[str, int] = attrs.field(factory=dict)
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    times: Mapping[str, TimeLimit] = attrs.field(factory=dict)
    keyed: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, topics: Mapping[str, Mapping[str, str]], producer: Mapping[str, Any]
    ) -> TopicLimits:
        """Limits of topics with these settings, for a producer with its own."""
        largest = largest_record(producer)
        sizes = {topic: int(own.get(_SIZE, largest)) for topic, own in topics.items()}
        low = {topic: most for topic, most in sizes.items() if most < largest}
        limits = {topic: TimeLimit.of(own) for topic, own in topics.items()}
        times = {topic: limit for topic, limit in limits.items() if limit is not None}
        keyed = frozenset(t for t, own in topics.items() if "compact" in own.get(_POLICY, ""))
        known = frozenset(topics)
        if not low:
            return cls(times=times, keyed=keyed, known=known)
        codec = producer.get("compression.type", producer.get("compression.codec", "none"))
        by_topic = low if codec == "none" else {}
        return cls(by_topic, {"batch.size": min(low.values())}, times, keyed, known)


class TopicLimit(NamedTuple):
    """The bytes that a record to a topic may have, and its times; None: there is no limit.

    ``keyed``: it has to have a key.
    """

    bytes: int | None
    times: TimeLimit | None
    keyed: bool = False


#: Settings of topics by name, as ``Admin.topic_settings`` reads them.
AskSettings: TypeAlias = Callable[[Sequence[str]], Mapping[str, Mapping[str, str]]]

#: Pause before settings that could not be read are asked for again, ms.
_ASK_AGAIN_MS = 30_000


@attrs.define(eq=False)
class LearnedLimits:
    """Limits of topics: those known at the start, others when the first record goes to them.

    Those others are chosen for each record. Their records may be refused for their size too, but
    the producer's batches are not kept small for them.

    Args:
        start: what was read at the start.
        ask: reads settings of topics; None: no others are learned.
        producer: settings of the producer.
        clock: for asking again.
    """

    start: TopicLimits
    _ask: AskSettings | None
    _producer: Mapping[str, Any]
    _clock: Clock
    _learned: dict[str, TopicLimit] = attrs.field(factory=dict, init=False)
    _ask_again_ms: dict[str, int] = attrs.field(factory=dict, init=False)

    def of(self, topic: str) -> TopicLimit:
        """The limits of the topic."""
        found = self._learned.get(topic)
        if found is not None:
            return found
        limits, at_ms = self.start, self._ask_again_ms.get(topic, 0)
        if self._ask is not None and topic not in limits.known and self._clock.now_ms() >= at_ms:
            try:
                limits = TopicLimits.of(self._ask([topic]), self._producer)
            except BrokerError as error:  # a record that is refused then ends the worker
                log.debug("limits of %s: %s", topic, error)
        found = TopicLimit(
            limits.by_topic.get(topic), limits.times.get(topic), topic in limits.keyed
        )
        if topic in limits.known or self._ask is None:
            self._learned[topic] = found
        elif self._clock.now_ms() >= at_ms:
            self._ask_again_ms[topic] = self._clock.now_ms() + _ASK_AGAIN_MS
        return found

    def refusal(self, records: OutgoingRecords) -> RecordRefusedError | None:
        """The error of the first record that the topic is known to refuse."""
        topic, keys, times = records.topic, records.keys, records.timestamps
        limit, found = self.of(topic), list[RecordRefusedError | None]()
        if limit.bytes is not None:
            found.append(too_large(records, limit.bytes))
        if limit.times is not None and times is not None:
            found.append(wrong_time(topic, limit.times, times, self._clock.wall_ms()))
        if limit.keyed and None in keys:
            reason = f"a record to {topic} was refused: it has no key, and {topic} is compacted"
            found.append(RecordRefusedError(reason, keys.index(None)))
        return min(filter(None, found), key=lambda one: one.index, default=None)


def too_large(records: OutgoingRecords, most: int) -> RecordRefusedError | None:
    """The refusal of the first record that has more bytes than a topic takes."""
    topic, keys, values = records.topic, records.keys, records.values
    large = first_too_large(keys, values, records.headers, most)
    if large is None:
        return None
    reason = (
        f"a record to {topic} was refused: {size_of(keys, values, large):,} bytes are more "
        f"than the topic's max.message.bytes, {most:,}"
    )
    return RecordRefusedError(reason, large, too_large=True)


def wrong_time(
    topic: str, limit: TimeLimit, times: Sequence[int], now_ms: int
) -> RecordRefusedError | None:
    """The refusal of the first record whose time a topic does not take."""
    at = limit.first_refused(times, now_ms)
    if at is None:
        return None
    reason = f"a record to {topic} was refused: {limit.reason(times[at], now_ms)}"
    return RecordRefusedError(reason, at, wrong_time=True)


def largest_record(producer: Mapping[str, Any]) -> int:
    """Bytes of the largest record that a producer with these settings takes."""
    return int(producer.get("message.max.bytes", LARGEST_RECORD))


NO_LIMITS = TopicLimits()


def first_too_large(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Headers | None] | None,
    most: int,
) -> int | None:
    """The place of the first record that makes a batch of more than so many bytes by itself."""
    room = most - _OVERHEAD_BYTES
    for index in range(len(keys)):
        size = size_of(keys, values, index)
        if headers is not None:
            size += sum(
                _HEADER_BYTES + len(name) + len(value or b"")
                for name, value in headers[index] or ()
            )
        if size > room:
            return index
    return None


def size_of(keys: Sequence[bytes | None], values: Sequence[bytes | None], index: int) -> int:
    """Bytes of a record's key and value."""
    return len(keys[index] or b"") + len(values[index] or b"")
