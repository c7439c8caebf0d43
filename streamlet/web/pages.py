"""Pages of entries: those of one task, put together of several, and the cursors between them.

An entry has a place in the order of its store: the bytes of its key, with times before or behind
them. A page ends behind an entry, and the next one begins there, whichever task has it. Entries
that share a place (duplicates in a window) lie in one task, so a cursor counts those it has passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Any, TypeAlias

import attrs
import msgspec

from streamlet.bounded import INT64_MAX
from streamlet.queries.position import Position
from streamlet.state.query_errors import InvalidQueryError
from streamlet.web.keys import packed, unpacked

#: Entries of a page, if nothing is said, and at most.
FEW_ENTRIES, MOST_ENTRIES = 100, 1_000
#: Bytes of a page's entries, about, at most.
MOST_BYTES = 4 << 20

#: The place of an entry: times, and bytes of keys in hexadecimal digits, which keep their order.
Place: TypeAlias = tuple[int | str, ...]


class TaskPage(msgspec.Struct, frozen=True):
    """The entries of a page that one task has.

    ``more``: the task has others behind them. ``position`` is the one that they are as of,
    ``staleness_ms`` the time since when there may be later ones.
    """

    entries: list[tuple[Place, msgspec.Raw]]
    more: bool
    position: dict[str, dict[str, int]] = {}
    staleness_ms: int = 0


@attrs.frozen
class Cursor:
    """The end of a page: the place of its last entry, and how many of that place have passed."""

    place: Place
    passed: int = 1

    @property
    def text(self) -> str:
        """The form in which clients pass it on."""
        return packed(msgspec.json.encode((self.place, self.passed)))

    @classmethod
    def of(cls, text: str) -> Cursor:
        """Read what a client passed on.

        Raises:
            InvalidQueryError: no answer had it.
        """
        try:
            found = msgspec.json.decode(unpacked(text, "cursor"), type=tuple[Place, int])
        except (ValueError, RecursionError) as error:
            raise InvalidQueryError("cursor: expected that of an answer") from error
        place, passed = found
        if any(abs(one) > INT64_MAX for one in (*place, passed) if isinstance(one, int)):
            raise InvalidQueryError("cursor: expected that of an answer")
        return cls(place, passed)


@attrs.frozen
class Bounds:
    """The part of a store's order that a page shows.

    ``after`` is the cursor that it begins behind.
    """

    limit: int = FEW_ENTRIES
    after: Cursor | None = None
    reverse: bool = False


def task_page(found: Iterable[tuple[Place, Any]], bounds: Bounds) -> TaskPage:
    """A page of entries that come in order; values as ``entry_json`` takes them."""
    entries: list[tuple[Place, msgspec.Raw]] = []
    size = 0
    for place, entry in _behind(found, bounds):
        if len(entries) >= bounds.limit or size >= MOST_BYTES:
            return TaskPage(entries, more=True)
        encoded = entry_json(entry)
        entries.append((place, msgspec.Raw(encoded)))
        size += len(encoded)
    return TaskPage(entries, more=False)


def _behind(found: Iterable[tuple[Place, Any]], bounds: Bounds) -> Iterator[tuple[Place, Any]]:
    """The entries behind the cursor."""
    after = bounds.after
    if after is None:
        yield from found
        return
    left, shape = after.passed, [*map(type, after.place)]
    for place, entry in found:
        if [*map(type, place)] != shape:
            raise InvalidQueryError("cursor: expected that of an answer of this query")
        before = place > after.place if bounds.reverse else place < after.place
        if before:
            continue
        if place == after.place and left > 0:
            left -= 1
            continue
        yield place, entry


def merged_page(pages: Sequence[TaskPage], bounds: Bounds) -> TaskPage:
    """The page of several tasks together: as of the position of all, no longer than one of them."""
    every = [[*map(_comparable, page.entries)] for page in pages]
    in_order = list(merge(*every, key=lambda entry: entry[0], reverse=bounds.reverse))
    ends = [_comparable(page.entries[-1])[0] for page in pages if page.more and page.entries]
    end = None if not ends else max(ends) if bounds.reverse else min(ends)
    shown: list[tuple[Place, msgspec.Raw]] = []
    size = 0
    for place, raw in in_order:
        # What other tasks have behind the end of one may lie between what is not here.
        behind = end is not None and (place < end if bounds.reverse else place > end)
        if behind or len(shown) >= bounds.limit or size >= MOST_BYTES:
            break
        shown.append((place, raw))
        size += len(raw)
    position = Position()
    for page in pages:
        position = position.merged(Position.from_json(page.position))
    more = end is not None or len(shown) < len(in_order)
    staleness_ms = max((page.staleness_ms for page in pages), default=0)
    return TaskPage(shown, more, position.to_json(), staleness_ms)


def cursor_behind(page: TaskPage, bounds: Bounds) -> Cursor | None:
    """The cursor behind a page; None: there is no more."""
    if not page.more or not page.entries:
        return None
    last = page.entries[-1][0]
    passed = sum(1 for place, _ in page.entries if place == last)
    if bounds.after is not None and bounds.after.place == last:
        passed += bounds.after.passed
    return Cursor(last, passed)


def _comparable(entry: tuple[Place, msgspec.Raw]) -> tuple[Place, msgspec.Raw]:
    return tuple(entry[0]), entry[1]


def entry_json(entry: Any) -> bytes:
    """An entry as JSON: bytes in base64, what JSON has no form for as its text.

    Raises:
        InvalidQueryError: a value cannot be written as JSON.
    """
    try:
        return msgspec.json.encode(entry, enc_hook=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidQueryError(f"the value cannot be written as JSON: {error}") from error


def _plain(value: Any) -> Any:
    """An object of a user's class as the fields that it has."""
    for form in ("model_dump", "to_dict", "_asdict"):
        method = getattr(value, form, None)
        if callable(method):
            return method()
    found = getattr(value, "__dict__", None)
    if isinstance(found, dict):
        return found
    raise TypeError(f"no form for a {type(value).__name__}")
