"""Ends of topics that open transactions hold back, as Spark's progress bears them.

Under ``read_committed`` a batch ends at the last stable offset of each partition: it waits for no
transaction of others. What lies behind is said beside the ends that Spark reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamlet.errors import BrokerError
from streamlet.kafka.stable_offsets import held_text
from streamlet.spark.kafka.identity import Offsets
from streamlet.spark.kafka.ranges import Ends
from streamlet.types import TopicPartition

#: No topic has such a name.
HELD = "#held"


def reported(readable: Ends, ends: Ends) -> Offsets:
    """The ends of what is read, with those under ``HELD`` that open transactions make.

    Args:
        readable: last stable offsets.
        ends: of all records.
    """
    found: Ends = {}
    for topic, partitions in readable.items():
        for partition, offset in partitions.items():
            if offset < ends[topic][partition]:
                found.setdefault(topic, {})[partition] = offset
    return {**readable, HELD: found} if found else {**readable}


def held_in(reported: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """The offsets from which on transactions hold partitions back, out of what was reported."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in reported.get(HELD, {}).items()
        for partition, offset in partitions.items()
    }


def check(planned: Ends, readable: Ends, ends: Ends) -> None:
    """Refuse to wait for records of a batch that an open transaction holds back.

    Args:
        planned: where the batch ends.
        readable: last stable offsets.
        ends: of all records.

    Raises:
        BrokerError: there are such; the message names partition and offset.
    """
    found = [
        held_text(where, offset)
        for where, offset in sorted(held_in(reported(readable, ends)).items())
        if planned.get(where.topic, {}).get(str(where.partition), 0) > offset
    ]
    if found:
        raise BrokerError(
            f"a batch was planned without consumer.isolation.level: {'; '.join(found)}"
        )
