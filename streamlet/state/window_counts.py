"""Counts of records in the rows of windows, by the extension where it was built, else in Python."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from streamlet.columnwise import count_windows as native_count_windows
from streamlet.state.time_window_store import TimeWindowStore
from streamlet.state.window_cache import WindowRows

#: Slots by key; values, times and marks of dirty rows by slot. No marks: each write is noted.
Columns: TypeAlias = tuple[dict[Any, int], list[Any], "array[int]", bytearray | None]


def plain_count_windows(
    windows: Mapping[int, Columns],
    starts: list[int],
    ckeys: list[Any],
    times: list[int],
    first: int,
    counts: list[int],
    latest: list[int],
) -> tuple[int, list[int]]:
    """Count a record for each row, from an index on, up to one whose row has no slot.

    The new counts and the later times of the rows are appended to ``counts`` and ``latest``.

    Returns:
        The index of that record, or of the end; the indexes of records whose rows were not marked.
    """
    changed: list[int] = []
    window = None
    columns = zip(starts[first:], ckeys[first:], times[first:], strict=True)
    for at, (start, ckey, time) in enumerate(columns, first):
        if start != window:
            window, (slots, values, stored, marks) = start, windows[start]
        slot = slots.get(ckey)
        if slot is None:
            return at, changed
        count = values[slot] = (values[slot] or 0) + 1
        if count > 1 and stored[slot] > time:
            time = stored[slot]
        else:
            stored[slot] = time
        if marks is None or not marks[slot]:
            changed.append(at)
            if marks is not None:
                marks[slot] = 1
        counts.append(count)
        latest.append(time)
    return len(starts), changed


_count: Callable[..., tuple[int, list[int]]] = native_count_windows or plain_count_windows


def count_records(
    store: TimeWindowStore, starts: list[int], ckeys: list[Any], times: list[int]
) -> tuple[list[int], list[int]]:
    """Count a record for each row of a store; the new counts, and the later times of the rows.

    Args:
        store: of counts.
        starts: of the windows, ms.
        ckeys: of the rows.
        times: of the records, ms.
    """
    counts: list[int] = []
    latest: list[int] = []
    windows = store.load_windows(starts, ckeys)
    columns = {start: _columns(store, rows) for start, rows in windows.items()}
    at = 0
    while True:
        at, changed = _count(columns, starts, ckeys, times, at, counts, latest)
        for index in changed:
            rows = windows[starts[index]]
            store.changed(rows, ckeys[index], rows.slots[ckeys[index]])
        if at == len(starts):
            return counts, latest
        for start, ckey in zip(starts[at:], ckeys[at:], strict=True):
            store.slot(windows[start], ckey)


def _columns(store: TimeWindowStore, rows: WindowRows) -> Columns:
    return rows.slots, rows.values, rows.times, None if store.unmarked else rows.dirty
