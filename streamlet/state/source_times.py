"""The times of rows that are restored from a table's source topic.

A table takes neither a record without a time nor one whose time its extractor (``timestamp=``)
cannot tell or makes negative. A restore leaves them out as well, or they would come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamlet.serdes import ColumnError, Serde
from streamlet.state.headed_rows import OfRecords, of_source_rows
from streamlet.state.rows import NO_TIME, rows_of
from streamlet.types import LATEST_MS, is_time

#: How a source tells times: ``(key, value, time) -> ms``, and whether it is also given the highest
#: time so far.
Extractor = tuple[Callable[..., int], bool]


class SourceTimes:
    """The times of a source topic's records, as its table had them.

    Args:
        extractor: of the source; None: records have their own times.
    """

    def __init__(self, extractor: Extractor | None) -> None:
        self._function = None if extractor is None else extractor[0]
        self._partition_time = extractor is not None and extractor[1]
        self._highest = NO_TIME

    def taken(
        self,
        key: Serde[Any],
        value: Serde[Any],
        keys: list[bytes],
        values: list[bytes | None],
        times: list[int],
        headers: OfRecords = None,
    ) -> tuple[list[bytes], list[bytes | None]]:
        """The records that a table with these serdes took, as keys and rows that it would write.

        ``headers`` are those of records whose rows bear them.
        """
        try:
            decoded = key.decode_column(list[bytes | None](keys))
            found = value.decode_column(values)
            if value.declared is None:  # a serde of the user's may read what it does not write
                value.encode_column(found)
            raws: list[Any] = keys if key.exact is not None else key.encode_column(decoded)
        except ColumnError:
            if len(keys) == 1:
                return [], []
            heads = headers or [None] * len(keys)
            columns = zip(keys, values, times, heads, strict=True)
            ones = [
                self.taken(key, value, [k], [v], [time], [head]) for k, v, time, head in columns
            ]
            return [one for some, _ in ones for one in some], [v for _, some in ones for v in some]
        times = self._of(decoded, found, times)
        rows = rows_of(values, [max(NO_TIME, time) for time in times])
        if headers is not None:
            rows = of_source_rows(rows, headers)
        if None not in raws and (not times or (min(times) >= 0 and max(times) <= LATEST_MS)):
            return raws, rows
        taken = zip(raws, rows, times, strict=True)
        timed = [(raw, row) for raw, row, time in taken if raw is not None and is_time(time)]
        return [raw for raw, _ in timed], [row for _, row in timed]

    def _of(self, keys: list[Any], values: list[Any], times: Sequence[int]) -> list[int]:
        """The time of each record, ms; -1 where the table has left it out."""
        if self._function is None:
            return list(times)
        return [self._extracted(*record) for record in zip(keys, values, times, strict=True)]

    def _extracted(self, key: Any, value: Any, time: int) -> int:
        assert self._function is not None
        more = (self._highest,) if self._partition_time else ()
        try:
            found = self._function(key, value, time, *more)
        except KeyboardInterrupt:
            raise
        except BaseException:  # its policy was not to fail, or no commit would be behind it
            return NO_TIME
        if not is_time(found):
            return NO_TIME
        self._highest = max(self._highest, found)
        return found
