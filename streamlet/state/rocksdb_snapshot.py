"""A column family of RocksDB as it was at one moment, read as the family itself is."""

from __future__ import annotations

from typing import Any

from streamlet.state.rocksdb_errors import is_no_such_key


class FamilySnapshot:
    """Reads a snapshot of rocksdict, which raises for a key that is not there.

    Args:
        snapshot: of a column family; the database stays open as long as it is held.
    """

    def __init__(self, snapshot: Any) -> None:
        self._snapshot = snapshot
        self.iter = snapshot.iter

    def get(self, key: Any) -> Any:
        """The value of a key, or None; of a list of keys a list."""
        if isinstance(key, list):
            return [self.get(one) for one in key]
        try:
            return self._snapshot[key]
        except Exception as error:  # rocksdict raises bare Exceptions
            if is_no_such_key(error):
                return None
            raise
