"""The keys that leave a cache of a store when that is too large."""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import islice
from typing import Any

#: What an eviction leaves of the limit.
KEPT_AFTER_EVICTION = 0.9


def oldest(
    cache: Iterable[Any],
    dirty: Container[Any],
    pinned: Container[Any],
    recent: Iterable[Any],
    count: int,
) -> list[Any]:
    """Up to ``count`` cache keys that are neither dirty nor pinned: oldest first, recent last."""
    spared = set(recent)
    clean = (ckey for ckey in cache if ckey not in dirty and ckey not in pinned)
    found = list(islice((ckey for ckey in clean if ckey not in spared), count))
    if len(found) < count:
        more = (c for c in cache if c in spared and c not in dirty and c not in pinned)
        found += islice(more, count - len(found))
    return found
