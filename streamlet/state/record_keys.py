"""The record keys of rows whose keys begin with a time, and what stands for them in a cache."""

from __future__ import annotations

from typing import Any

from streamlet.serdes import Serde


class RecordKeys:
    """Cache keys of record keys: the key itself where its serde is exact, else its bytes.

    Args:
        serde: of the record keys.
    """

    def __init__(self, serde: Serde[Any]) -> None:
        self._serde, self._exact = serde, serde.exact is not None

    def ckeys(self, keys: list[Any]) -> list[Any]:
        """Cache keys of decoded record keys; the list itself where keys are exact."""
        return keys if self._exact else self._serde.encode_column(keys)

    def record_key(self, ckey: Any) -> Any:
        """The record key of a cache key."""
        return ckey if self._exact else self._serde.decode(ckey)

    def record_keys(self, ckeys: list[Any]) -> list[Any]:
        """The record keys of a column of cache keys."""
        return ckeys if self._exact else self._serde.decode_column(ckeys)

    def raw_key(self, ckey: Any) -> bytes:
        """The bytes of the record key of a cache key."""
        return self._serde.encode(ckey) if self._exact else ckey
