"""Topics that take smaller records than the producer does.

The broker measures batches, and turns away the whole one; which record was too large it does not
say, and it says it after everything behind it was queued. So what is known of topics is heeded
before: batches are kept small enough, and a record that is too large is refused as the producer
refuses one, on its own and with its place. The limits are read at the start; a worker ends, naming
the limit, where one was lowered since, and starts again with the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from streamlet.kafka.ports import Headers

#: The producer's ``message.max.bytes`` unless it is set.
LARGEST_RECORD = 1_000_000

#: What a batch of one record takes beside key, value and headers, at most: 61 bytes for the batch,
#: and the record's own lengths, time and offset as varints.
_OVERHEAD_BYTES = 61 + 27
_HEADER_BYTES = 10


@attrs.frozen
class TopicLimits:
    """``by_topic`` are those that refuse records; ``settings`` keep the producer's batches small.

    A compressed record may fit although it is larger, so that with compression nothing is refused.
    """

    by_topic: Mapping[str, int] = attrs.field(factory=dict)
    settings: Mapping[str, Any] = attrs.field(factory=dict)

    @classmethod
    def of(cls, topics: Mapping[str, int], producer: Mapping[str, Any]) -> TopicLimits:
        """Limits of topics, for a producer with these settings."""
        largest = largest_record(producer)
        low = {topic: most for topic, most in topics.items() if most < largest}
        if not low:
            return NO_LIMITS
        codec = producer.get("compression.type", producer.get("compression.codec", "none"))
        return cls(low if codec == "none" else {}, {"batch.size": min(low.values())})


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
