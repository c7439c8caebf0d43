"""A store's cache that refuses what a commit could not write: without bytes, or with too many.

Both show when a commit is made, many records after the one at fault. A task that was taught this
goes back to its last commit and uses such a cache from then on: each entry is encoded when it is
put, so that the one record fails, before anything of it is kept. All tasks of the worker go back,
since the commit happens for none; outputs of the first attempt stand, as after a crash.

The TopologyTestDriver, Spark and global tables, which cannot go back, have such caches from the
start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streamlet.errors import SerdeError, UnwritableEntryError, error_text
from streamlet.serdes import ColumnError
from streamlet.user_code import shown

#: What a record takes beside key and value: our prefix and Kafka's own fields.
_OVERHEAD_BYTES = 128


def unwritable(store: str, key: object, cause: BaseException) -> UnwritableEntryError:
    """The error for an entry of a store that has no bytes."""
    while isinstance(cause, ColumnError):  # of the entries in a row; the key says which row
        cause = cause.cause
    why = cause if isinstance(cause, SerdeError) else error_text(cause)
    return UnwritableEntryError(f"store {store}, key {shown(key, 100)}: {why}")


class EntryCheck:
    """The check of entries of one store.

    Args:
        store: its name.
        size: bytes of an entry's key and value; it raises for an entry that has none.
        most: bytes that a record may have; None: any number.
    """

    def __init__(self, store: str, size: Callable[[Any, Any], int], most: int | None) -> None:
        self._store = store
        self._size = size
        self._most = None if most is None else most - _OVERHEAD_BYTES

    def __call__(self, ckey: Any, value: Any) -> None:
        """Raises ``SerdeError`` for an entry that has no bytes, or too many."""
        try:
            size = self._size(ckey, value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a user's serde may raise anything, or exit
            raise unwritable(self._store, ckey, error) from error
        if self._most is not None and value is not None and size > self._most:
            raise SerdeError(
                f"store {self._store}: {size:,} bytes under one key are too many for its changelog"
                "; more need producer.message.max.bytes and the topic's max.message.bytes"
            )


class CheckedCache(dict[Any, Any]):
    """A dict of cache keys and values.

    Args:
        entries: what is in it already.
        check: of entries that are put.
    """

    def __init__(self, entries: Mapping[Any, Any], check: EntryCheck) -> None:
        super().__init__(entries)
        self.check = check

    def __setitem__(self, ckey: Any, value: Any) -> None:
        """Put a value; raises ``SerdeError`` for one that is refused, which changes nothing."""
        self.check(ckey, value)
        super().__setitem__(ckey, value)

    def keep(self, ckey: Any, value: Any) -> None:
        """Put a value that is stored already."""
        super().__setitem__(ckey, value)
