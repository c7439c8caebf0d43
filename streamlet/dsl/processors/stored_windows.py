"""The part that the stores of windows and of sessions share, as processors and tests see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from streamlet.absent import explains_misuse
from streamlet.arguments import never_by_hand, rare_calls_told_by_form
from streamlet.dsl.processors.store_view import WHO_GIVES, StoreView
from streamlet.serdes import Serde
from streamlet.serdes.windowed import Windowed
from streamlet.state.bucket_store import BucketStore, Item
from streamlet.state.rows import NO_TIME
from streamlet.state.time_window_store import TimeWindowStore
from streamlet.state.window_reads import ALL_KEYS, KeyRange
from streamlet.user_code import plain_hint, shown

#: No time is further from the epoch, ms; the bucket behind such a time has a key, too.
_FURTHEST = 1 << 61
#: A store of windows, one in a row or several.
Windows: TypeAlias = TimeWindowStore | BucketStore


@rare_calls_told_by_form
@explains_misuse
@never_by_hand(WHO_GIVES)
class WindowsView(StoreView):
    """The part that stores of windows and of sessions share.

    Args:
        store: of the task.
        value: serde of the values.
        read_only: why it can only be read; empty: processors may write it.
    """

    _store: Windows
    #: Whether windows lie by their start; sessions lie by their end.
    _by_start = True

    def __init__(self, store: Windows, value: Serde[Any], read_only: str = "") -> None:
        super().__init__(store, value, read_only)

    def get(self, window: Windowed[Any]) -> Any:
        """The value of a window, or None, as stores by key give it for a key."""
        self._check_windowed(window)
        raw = self._store.reads.key_bytes(self._key(window.key))
        time = window.start if self._by_start else window.end
        found = self._found((raw, raw), time, time, backward=False)
        return next((value for one, value in found if one[1:] == window[1:]), None)

    def _check_windowed(self, window: object) -> None:
        """Refuse what is no ``Windowed`` key, by ``TypeError``."""
        if not isinstance(window, Windowed):
            raise TypeError(f"store {self.name}: expected a Windowed key, got {shown(window)}")

    def range(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """All windows with their values, as stores by key give all entries."""
        return self._found(ALL_KEYS, None, None, backward=False)

    def _range_of(self, first: Any, last: Any) -> KeyRange:
        """The bytes of the ends of a range of keys; None is an open end."""
        low, high = (
            None if key is None else self._store.reads.key_bytes(key) for key in (first, last)
        )
        return low, high

    def _found(
        self, keys: KeyRange, low: int | None, high: int | None, *, backward: bool
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """Windows of a range of keys whose times are in a range, as far as they are kept."""
        first = end_of_times(low, "the first time")
        found = self._store.windows(
            first, end_of_times(high, "the last time"), keys, backward=backward
        )
        return ((window, self._read(value)) for window, value in found)

    def _of_key(
        self, key: Any, low: int | None, high: int | None, *, backward: bool
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """The entries of one key."""
        raw = self._store.reads.key_bytes(self._key(key))
        return self._found((raw, raw), low, high, backward=backward)


def end_of_times(given: int | None, what: str) -> int | None:
    """An end of a range of times, no further away than a row's key can be."""
    if given is None:
        return None
    if type(given) is int:
        return min(max(given, -_FURTHEST), _FURTHEST)
    raise TypeError(
        f"expected {what} in ms since the epoch, or None, got {shown(given)}{plain_hint(given)}"
    )


def items_of(store: BucketStore, ckey: Any, low: int, high: int) -> list[Item]:
    """Windows of a key whose times are in a range, both inclusive, as far as they are kept."""
    latest = store.progress.highest
    if latest == NO_TIME:
        return []
    return store.items(ckey, max(store.shown_from, low, 0), min(high, latest))


def replace_item(store: BucketStore, key: Any, time: int, other: int, value: Any) -> None:
    """Put a window in place of the one with its two times."""
    (ckey,) = store.ckeys([key])
    items = items_of(store, ckey, time, time)
    there = [item for item in items if item[1] == other]
    store.replace(ckey, there, [(time, other, value)], NO_TIME)
    store.advance(NO_TIME, time)
