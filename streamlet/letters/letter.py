"""Dead letters: what their headers say, and which of them are meant. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from streamlet.bounded import INT32_MAX, INT64_MAX, is_topic_name, whole
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.processing.policy import REASONS
from streamlet.types import TopicPartition

#: The header of a record that was given back: topic, partition and offset of its letter.
REPLAYED = "replayed-from"
#: Characters of a word of the reason. Names have fewer, and any producer can write a letter.
_MOST_WORD = 500


@attrs.frozen
class Letter:
    """A dead letter.

    ``key``, ``value``, ``timestamp`` and ``headers`` are those of the record that failed;
    ``source`` is the partition it was read from, None where the headers do not say it.
    """

    partition: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    source: TopicPartition | None
    reason: Mapping[str, str]

    @property
    def mark(self) -> bytes:
        """The value of the header that the record bears once it was given back."""
        return mark_of(self.partition, self.offset)

    @property
    def replayed_headers(self) -> Headers:
        """The headers with which the record is given back."""
        return [*(one for one in self.headers if one[0] != REPLAYED), (REPLAYED, self.mark)]

    def detail(self, name: str) -> str:
        """A word of the reason: application, operator, error, message; empty if it has none."""
        return self.reason.get(name, "")


def mark_of(partition: TopicPartition, offset: int) -> bytes:
    """The mark of the letter at a place."""
    return f"{partition.topic}/{partition.partition}/{offset}".encode()


def letters(batch: PartitionBatch) -> Iterator[Letter]:
    """The dead letters among records; others have no reason in their headers."""
    where = TopicPartition(batch.topic, batch.partition)
    for index, headers in enumerate(batch.headers or ()):
        reason = _reason(headers or ())
        if not reason:
            continue
        yield Letter(
            where,
            batch.offsets[index],
            batch.keys[index],
            batch.values[index],
            batch.timestamps[index],
            [one for one in headers or () if one[0] not in REASONS],
            _source(reason),
            reason,
        )


def _reason(headers: Headers) -> dict[str, str]:
    found = {
        REASONS[name]: (value or b"").decode(errors="replace")
        for name, value in headers
        if name in REASONS
    }
    return {name: word if name == "message" else word[:_MOST_WORD] for name, word in found.items()}


def _source(reason: Mapping[str, str]) -> TopicPartition | None:
    try:
        partition = whole(int(reason.get("partition", "")), 0, INT32_MAX)
        whole(int(reason.get("offset", "")), 0, INT64_MAX)
    except ValueError:
        return None
    topic = reason.get("topic", "")
    return TopicPartition(topic, partition) if is_topic_name(topic) else None


@attrs.frozen
class LetterFilter:
    """A filter of dead letters; None admits any value.

    ``words`` are those of the reason by name (application, topic, operator, error), ``partition``
    and ``offset`` the place of the letter, and the times, ms, bound that of the record: from
    ``since_ms`` on, before ``until_ms``.
    """

    words: Mapping[str, str] = attrs.field(factory=dict)
    partition: int | None = None
    offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, letter: Letter) -> bool:
        """True if a letter is meant."""
        return (
            all(letter.detail(name) == word for name, word in self.words.items())
            and self.partition in (None, letter.partition.partition)
            and self.offset in (None, letter.offset)
            and (self.since_ms is None or letter.timestamp >= self.since_ms)
            and (self.until_ms is None or letter.timestamp < self.until_ms)
        )
