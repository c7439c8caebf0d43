"""A store's cache that refuses what its changelog would not take.

What is too large shows when a commit is sent, many records after the one that made it so. A task
that was taught this goes back to its last commit and uses such a cache from then on: each value is
encoded when it is put, so that the one record fails, before anything of it is kept. All tasks of
the worker go back, since the commit happens for none; outputs of the first attempt stand, as after
a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streamlet.errors import SerdeError

#: What a record takes beside key and value: our prefix and Kafka's own fields.
_OVERHEAD_BYTES = 128


class BoundedCache(dict[Any, Any]):
    """A dict of cache keys and values.

    Args:
        entries: what is in it already.
        store: name of the store.
        size: bytes of an entry's key and value.
        most: bytes that a record may have.
    """

    def __init__(
        self,
        entries: Mapping[Any, Any],
        store: str,
        size: Callable[[Any, Any], int],
        most: int,
    ) -> None:
        super().__init__(entries)
        self._store = store
        self._size = size
        self._most = most - _OVERHEAD_BYTES

    def __setitem__(self, ckey: Any, value: Any) -> None:
        """Put a value; raises ``SerdeError`` for one that is too large, which changes nothing."""
        self.check(ckey, value)
        super().__setitem__(ckey, value)

    def check(self, ckey: Any, value: Any) -> None:
        """Raises ``SerdeError`` for a value that is too large."""
        if value is not None and (size := self._size(ckey, value)) > self._most:
            raise SerdeError(
                f"store {self._store}: {size:,} bytes under one key are too many for its changelog"
                "; more need producer.message.max.bytes and the topic's max.message.bytes"
            )

    def keep(self, ckey: Any, value: Any) -> None:
        """Put a value that is stored already."""
        super().__setitem__(ckey, value)
