"""The rule of who has which object, for values that can change in place.

An object in a batch is held by no store, is in no other branch, and is not one that a function has
kept. So a function may change what it is given, and return it.

- A store keeps copies, and gives copies to functions (``Serde.copy``: as its bytes would return).
- What a function returns or yields is copied at once (``snapshots``), since it may have kept it,
  unless its code shows that it cannot (``owner_of_results``).
- Where a stream goes several ways, or a store keeps what an operator sends on, and where a record
  may be tried again, the column is copied (``processing.value_copies``).

Types that cannot change pay nothing: an ``Own`` is None for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from streamlet.columnwise import all_flat
from streamlet.serdes import Serde
from streamlet.serdes.copies import own, own_column

#: Makes a copy of a value that shares nothing with it; None: such values cannot change.
Own: TypeAlias = Callable[[Any], Any] | None


def owner(serde: Serde[Any] | None) -> Own:
    """Copies values of a serde; without one (None) their type is not known, so they may change."""
    return None if serde is not None and serde.immutable else own


def copies(column: list[Any], of: Own) -> list[Any]:
    """Copies of a column of values; None stays None."""
    return column if of is None else own_column(column)


def snapshots(results: Iterable[Any], of: Own) -> Iterable[Any]:
    """Results of a function, each copied before the function is called again."""
    return results if of is None else map(of, results)


def apart(results: list[Any], of: Own, *, new: bool) -> list[Any]:
    """Results of a function that only read its arguments, without a part of these that can change.

    ``new``: each result is a dict or list that the function has made.
    """
    if of is None or (new and all_flat(results)):
        return results
    return own_column(results)


def groups(results: Iterable[Any], of: Own) -> Iterable[tuple[Any, ...]]:
    """Groups of results of a function, each result copied before the next one is made."""
    return map(tuple, results) if of is None else map(_group, results)


def _group(results: Iterable[Any]) -> tuple[Any, ...]:
    kind = type(results)
    if kind is list or kind is tuple:  # nothing runs between two of them
        group: tuple[Any, ...] = own(tuple(results))
        return group
    return tuple(map(own, results))
