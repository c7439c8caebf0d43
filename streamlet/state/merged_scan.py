"""Two scans as one: the rows of the medium, and over them the newer ones of the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Stands for the cache key of a row that only the medium has.
ON_MEDIUM: Any = object()


def merged(
    older: Iterator[tuple[bytes, bytes]], newer: Iterator[tuple[bytes, Any]], *, backward: bool
) -> Iterator[tuple[bytes, Any, bytes | None]]:
    """Keys in order, each with its cache key or ``ON_MEDIUM``, and its bytes on the medium or None.

    Args:
        older: keys and rows of the medium, in order.
        newer: keys and cache keys of what was written since, in the same order.
        backward: the last key comes first.
    """
    fresh = next(newer, None)
    for key, raw in older:
        while fresh is not None and (fresh[0] > key if backward else fresh[0] < key):
            yield *fresh, None
            fresh = next(newer, None)
        if fresh is not None and fresh[0] == key:
            yield *fresh, raw
            fresh = next(newer, None)
        else:
            yield key, ON_MEDIUM, raw
    while fresh is not None:
        yield *fresh, None
        fresh = next(newer, None)
