"""Sorts what one poll returned by partition; knows no client's messages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import TypeVar

M = TypeVar("M")


def split(
    messages: list[M],
    topics: int,
    topic_of: Callable[[M], str | None],
    partition_of: Callable[[M], int | None],
) -> list[tuple[str, int, list[M]]]:
    """Messages by topic and partition, order kept; looks at topics only where there are several."""
    parts: list[tuple[str, int, list[M]]] = []
    if not messages:
        return parts
    by_topic: dict[str, list[M]] = {}
    if topics > 1:
        for name, run in groupby(messages, topic_of):
            by_topic.setdefault(str(name), []).extend(run)
    else:
        by_topic[str(topic_of(messages[0]))] = messages
    for topic, same in by_topic.items():
        by_partition: dict[int, list[M]] = {}
        for number, run in groupby(same, partition_of):
            by_partition.setdefault(int(number or 0), []).extend(run)
        parts.extend((topic, partition, run) for partition, run in by_partition.items())
    return parts
