"""The extension counts in windows, and writes their keys, as Python does."""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.serdes.windowed import Windowed, plain_window_keys
from streamlet.state.window_counts import Columns, plain_count_windows

native: ModuleType = pytest.importorskip("streamlet.kafka.native._native")

STARTS, KEYS = st.sampled_from((-10, 0, 1 << 40)), st.sampled_from("abcd")
RECORDS = st.lists(st.tuples(STARTS, KEYS, st.integers(-3, 1 << 50)), max_size=30)
VALUES = st.none() | st.integers(0, 3) | st.just(1 << 60)


@given(RECORDS, st.lists(VALUES, min_size=3, max_size=3), st.booleans(), st.integers(0, 3))
def test_records_are_counted_in_the_rows_of_their_windows(
    records: list[tuple[int, str, int]], values: list[Any], marked: bool, first: int
) -> None:
    starts, keys, times = ([one[part] for one in records] for part in range(3))
    first = min(first, len(records))
    results = []
    for count in (plain_count_windows, native.count_windows):
        windows: dict[int, Columns] = {
            start: (
                {"a": 0, "b": 1, "c": 2},  # and no "d"
                list(values),
                array("q", (5, -1, 1 << 45)),
                bytearray((0, 1, 0)) if marked else None,
            )
            for start in (-10, 0, 1 << 40)
        }
        counts, latest = [7], [8]
        found = count(windows, starts, keys, times, first, counts, latest)
        assert len(counts) == len(latest) == found[0] - first + 1
        results.append((found, counts, latest, windows))
    assert results[0] == results[1]


@given(st.lists(st.tuples(st.binary(max_size=4), st.integers(-(1 << 63), (1 << 63) - 1))))
def test_keys_stand_before_the_starts_of_their_windows(rows: list[tuple[bytes, int]]) -> None:
    heads, windows = [head for head, _ in rows], [Windowed("key", at, 0) for _, at in rows]
    assert native.window_keys(heads, windows) == plain_window_keys(heads, windows)


@pytest.mark.parametrize(
    ("window", "record"),
    [
        (None, (0, "a", 1)),  # there is none
        ([], (0, "a", 1)),
        (({"a": 0}, [1], array("q", (1,))), (0, "a", 1)),
        (({"a": 0}, [1], [1], None), (0, "a", 1)),
        (({"a": 0}, [1], b"12345678", None), (0, "a", 1)),
        (({"a": 0}, [1], array("q", (1,)), b"1"), (0, "a", 1)),
        (({"a": 1}, [1], array("q", (1,)), None), (0, "a", 1)),
        (({"a": 1}, [1, 1], array("q", (1,)), None), (0, "a", 1)),
        (({"a": 1}, [1, 1], array("q", (1, 1)), bytearray(1)), (0, "a", 1)),
        (({"a": -1}, [1], array("q", (1,)), None), (0, "a", 1)),
        (({"a": "b"}, [1], array("q", (1,)), None), (0, "a", 1)),
        (({"a": 0}, ["b"], array("q", (1,)), None), (0, "a", 1)),
        (({"a": 0}, [(1 << 63) - 1], array("q", (1,)), None), (0, "a", 1)),
        (({"a": 0}, [1], array("q", (1,)), None), (0, [], 1)),
        (({"a": 0}, [1], array("q", (1,)), None), (0, "a", "b")),
        (({"a": 0}, [1], array("q", (1,)), None), ("c", "a", 1)),
    ],
)
def test_columns_that_no_window_has_are_refused(window: Any, record: tuple[Any, ...]) -> None:
    windows = {} if window is None else {0: window, "c": window}
    refused = (TypeError, ValueError, OverflowError, LookupError, BufferError)
    with pytest.raises(refused):
        native.count_windows(windows, *([one] for one in record), 0, [], [])
    with pytest.raises(refused):
        native.count_windows(windows, [], [], [], -1, [], [])
    for heads, column in (([b""], []), ([""], [Windowed("a", 1, 2)]), ([b""], [1]), ([b""], [()])):
        with pytest.raises(refused):
            native.window_keys(heads, column)
