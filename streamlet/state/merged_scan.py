"""Two scans as one: the rows of the medium, and over them the newer ones of the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def merged(
    older: Iterator[tuple[bytes, bytes]],
    newer: Iterator[tuple[bytes, Any]],
    ckey_of: Callable[[bytes], Any] | None,
    *,
    backward: bool,
) -> Iterator[tuple[bytes, Any, bytes | None]]:
    """Keys in order, each with its cache key, and its bytes on the medium or None.

    Args:
        older: keys and rows of the medium, in order.
        newer: keys and cache keys of what was written since, in the same order.
        ckey_of: the cache key of a key; None: the key itself.
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
            yield key, key if ckey_of is None else ckey_of(key), raw
    while fresh is not None:
        yield *fresh, None
        fresh = next(newer, None)
