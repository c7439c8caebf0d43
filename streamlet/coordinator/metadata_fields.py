"""Fields of the text beside a committed position, checked where they enter."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from streamlet.bounded import TASK_NUMBER_MAX, whole
from streamlet.types import TopicPartition
from streamlet.user_code import shown

#: Bytes of the key of a task.
KEY_BYTES = 12
#: Characters of a key at most.
KEY_CHARS = 80


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, as JSON has them."""
    found: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def by_partition(record: dict[str, dict[str, object]]) -> dict[TopicPartition, int]:
    """Read the packed text that the function above writes.

    Raises:
        ValueError, TypeError, AttributeError: it is none.
    """
    return {
        TopicPartition(text_of(topic), whole(int(partition), 0, TASK_NUMBER_MAX)): whole(offset)
        for topic, parts in record.items()
        for partition, offset in parts.items()
    }


def key_of(value: object) -> bytes:
    """The key that a text in base 85 must be.

    Raises:
        ValueError, TypeError, AttributeError: it is none.
    """
    if len(text := text_of(value)) > KEY_CHARS:
        raise ValueError(f"a key of {len(text)} characters")
    return base64.b85decode(text)


def flag_of(value: object) -> bool:
    """The value, which must be true or false.

    Raises:
        ValueError, TypeError, AttributeError: it is none.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{shown(value)} is neither true nor false")
    return value


def text_of(value: object) -> str:
    """The text that a value must be.

    Raises:
        ValueError, TypeError, AttributeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is no text")
    value.encode()  # half a pair of surrogates is none
    return value
