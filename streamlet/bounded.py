"""Bounds of numbers and JSON from outside, checked where they enter.

Bytes of a broker, a disk or another member can be any bytes. A number that is read here is within
the bounds that Kafka's formats have, and JSON is JSON, or it is a ``ValueError``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NoReturn, TypeAlias

import msgspec

from streamlet.types import TopicPartition
from streamlet.user_code import shown

#: The highest offset, and the highest of all numbers that Kafka's formats hold.
INT64_MAX = (1 << 63) - 1
INT32_MAX = (1 << 31) - 1
#: The last ms of the year 9999; a later time is no date.
TIME_MAX = 253_402_300_799_999
#: The highest epoch that is read; those that follow on it fit into 32 bits all the same.
EPOCH_MAX = INT32_MAX
#: The highest number of a commit of an epoch: one each ms would take 34 years.
COMMIT_MAX = 1 << 40
#: The highest number of a subtopology or a partition of an application; clusters have fewer.
TASK_NUMBER_MAX = 199_999

#: The highest port.
PORT_MAX = 65_535
#: Name or address of a host.
HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")

#: What Kafka takes for the name of a topic, but for "." and "..".
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
TOPIC_CHARACTERS = 249

#: The most worker processes of an instance, and characters of its name.
WORKERS_MAX, NAME_MAX = 256, 249

#: Fields of values that msgspec reads.
TimeMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX)]
Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=INT32_MAX)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-INT64_MAX, le=INT64_MAX)]
#: A name or an id: those of instances, members, stores and topics have a third of it at most.
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]

#: Problems of one file or of all settings that are told; behind them comes that there are more. A
#: file of 16 MiB can have millions.
MOST_PROBLEMS = 1_000
#: Characters of a name that messages show.
_NAME_SHOWN = 200
#: The line behind them.
MORE_PROBLEMS = "and more, which are not looked for: mend these first"


def shortened(name: str) -> str:
    """A name of a file's for messages: its beginning, where it is longer than any that is meant."""
    return name if len(name) <= _NAME_SHOWN else f"{name[:_NAME_SHOWN]}…"


def has_topic_characters(name: str) -> bool:
    """True for a name that Kafka takes for a topic, if it is short enough."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def is_topic_name(name: str) -> bool:
    """True for a name that Kafka takes for a topic."""
    return len(name) <= TOPIC_CHARACTERS and has_topic_characters(name)


def whole(value: object, least: int = 0, most: int = INT64_MAX) -> int:
    """The whole number that a value must be.

    Raises:
        ValueError: it is none, or out of its bounds.
    """
    if type(value) is not int:
        raise ValueError(f"{shown(value)} is no whole number")
    if not least <= value <= most:
        text = str(value) if value.bit_length() < 100 else f"a number of {value.bit_length()} bits"
        raise ValueError(f"{text} is not from {least} to {most}")
    return value


def text_of(value: object) -> str:
    """The text that a value must be.

    Raises:
        ValueError, TypeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is no text")
    value.encode()  # half a pair of surrogates is none
    return value


def offsets_by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, as JSON has them."""
    found: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def offsets_of(record: Any, most: int = INT32_MAX) -> dict[TopicPartition, int]:
    """The offsets that ``offsets_by_topic`` wrote, of partitions up to this number.

    Raises:
        ValueError, TypeError, AttributeError: it is something else.
    """
    return {
        TopicPartition(text_of(topic), whole(int(partition), 0, most)): whole(offset)
        for topic, parts in record.items()
        for partition, offset in parts.items()
    }


def parsed(raw: bytes | str) -> Any:
    """The value of JSON that others wrote.

    Raises:
        ValueError: it is no JSON, no UTF-8, nests too deeply, or has numbers that JSON lacks.
    """
    try:
        return json.loads(raw, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("it nests too deeply") from error


def is_deeper(value: object, most: int) -> bool:
    """True if lists and dicts nest deeper than so many levels within a value of JSON.

    What is read may nest nearly as deep as Python's stack, so that a comparison or printing would
    fail on it later.
    """
    level = [value]
    for _ in range(most + 1):
        inner = [one for part in level if isinstance(part, dict | list) for one in _parts(part)]
        level = [one for one in inner if isinstance(one, dict | list)]
        if not level:
            return False
    return True


def _parts(value: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")
