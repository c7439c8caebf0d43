"""The operator that folds a stream into a table of sessions.

A record joins the sessions of its key that it touches, and merges them: their old rows are deleted,
and the new one begins with the earliest of them. Rules and order are Kafka Streams'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.dsl.windowing.one_by_one import Bounds, OneByOne
from streamlet.dsl.windowing.windows import SessionWindows
from streamlet.serdes.windowed import windowed_of
from streamlet.state.bucket_store import Item


@attrs.frozen
class SessionWindowed(OneByOne[SessionWindows]):
    """A fold per key and session, which merges the sessions that a record touches."""

    def _add(
        self,
        updates: ResultColumns,
        index: int,
        record: tuple[Any, Any, Any, int],
        observed: int,
        highest: int,
    ) -> tuple[int, Sequence[Bounds]]:
        """Add a record; the latest end, and the record's session if that is closed."""
        key, ckey, value, time = record
        gap, folding, store = self.windows.gap_ms, self.folding, self.store
        found = self._touched(ckey, time - gap, time + gap, highest)
        start = end = time
        so_far = folding.first()
        for item in found:
            so_far = folding.merged(key, so_far, item[2])
            start, end = min(start, item[1]), max(end, item[0])
        if end < observed - self.windows.grace_ms - gap:
            return highest, [(start, end)]
        new = folding.add_own(key, value, so_far)
        if (start, end) != (time, time):
            for one_end, one_start, old in found:
                updates.change(index, windowed_of((key, one_start, one_end)), None, old, one_end)
        updates.change(index, windowed_of((key, start, end)), new, None, end)
        store.replace(ckey, found, [(end, start, new)], end)
        return max(highest, end), ()

    def _touched(self, ckey: Any, low: int, high: int, highest: int) -> list[Item]:
        """The sessions that end at ``low`` or later and begin at ``high`` or earlier, by their end.

        One that the store shows no more, by the latest end it has, is not touched.
        """
        retention = self.store.layout.retention_ms
        if retention is not None:
            low = max(low, highest - retention + 1)
        return [item for item in self.store.items(ckey, low, max(highest, low)) if item[1] <= high]
