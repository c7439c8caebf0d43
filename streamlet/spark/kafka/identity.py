"""The identity of topics in a query's positions: one that is made again is not read on.

Kafka gives each topic an id, and another one when it is made again. Offsets of the old one mean
nothing in the new one, though it may have as many records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from streamlet.errors import PositionsMismatchError
from streamlet.spark.kafka.ranges import Ends

#: Next offsets by topic and partition, with the ids of the topics under ``IDS``.
Offsets: TypeAlias = dict[str, dict[str, Any]]

#: No topic has such a name.
IDS = "#ids"

_REMEDY = (
    "Its state and its topics are left as they are. A new checkpoint begins without state, "
    "and where auto.offset.reset says"
)


def marked(ends: Ends, ids: Mapping[str, str]) -> Offsets:
    """Offsets with the ids of their topics."""
    return {**ends, IDS: {topic: ids[topic] for topic in sorted(ends) if topic in ids}}


def offsets(given: Offsets) -> Ends:
    """The offsets without the topics' ids."""
    found: Ends = {}
    for topic, partitions in given.items():
        if topic != IDS:
            found[topic] = {partition: int(at) for partition, at in partitions.items()}
    return found


def compare(
    position: Offsets, ids: Mapping[str, str], ends: Mapping[str, Mapping[str, int]]
) -> None:
    """Refuse to go on at positions of topics that were made again, or lost their ends.

    Args:
        position: of the checkpoint; one of an older version has no ids.
        ids: of the topics now.
        ends: of their partitions now.

    Raises:
        PositionsMismatchError: there are such topics; the message names each.
    """
    known = position.get(IDS, {})
    wrong = [
        text
        for topic, partitions in sorted(offsets(position).items())
        if (text := _wrong(topic, partitions, (known.get(topic), ids.get(topic)), ends))
    ]
    if wrong:
        raise PositionsMismatchError(f"{'; '.join(wrong)}. {_REMEDY}")


def check_ids(was: Mapping[str, str], now: Mapping[str, str], checkpoint: str) -> None:
    """Refuse topics that are not those that a checkpoint is of.

    Args:
        was: ids by topic when the checkpoint was begun.
        now: ids by topic.
        checkpoint: its name.

    Raises:
        PositionsMismatchError: there are such topics; the message names each.
    """
    made = sorted(topic for topic in was.keys() & now.keys() if was[topic] != now[topic])
    if made:
        found = "; ".join(f"topic {topic} was created again" for topic in made)
        raise PositionsMismatchError(f"checkpoint {checkpoint}: {found}. {_REMEDY}")


def _wrong(
    topic: str,
    partitions: Mapping[str, int],
    ids: tuple[object, object],
    ends: Mapping[str, Mapping[str, int]],
) -> str | None:
    was, now = ids
    if was is not None and now is not None and was != now:
        there = ", ".join(f"{topic}-{partition} at {at}" for partition, at in partitions.items())
        return f"topic {topic} was created again, and positions ({there}) of the old one committed"
    short = [
        f"{topic}-{partition} ends at {end}, but position {at} is committed"
        for partition, at in sorted(partitions.items())
        if (end := ends.get(topic, {}).get(partition, at)) < at
    ]
    return f"{'; '.join(short)}: the topic lost records or was created again" if short else None
