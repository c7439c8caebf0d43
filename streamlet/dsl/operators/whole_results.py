"""Results of ``flat_map`` and ``flat_map_values`` that Python would take apart.

A text gives its letters, a dict its keys, a table of pandas or polars the names of its columns, a
model of pydantic its fields: a function that returns one has forgotten the list around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import GeneratorType
from typing import Any

from streamlet.user_code import shown

#: Types of results that are meant.
_FINE = {list, tuple, set, frozenset, GeneratorType}
_TEXTS = (str, bytes, bytearray, memoryview)
#: Packages whose tables give the names of their columns.
_TABLES = {"pandas", "polars"}


def whole(kind: type) -> str | None:
    """The parts that Python would take a result of this type apart into; None: values are meant."""
    if kind in _FINE:
        return None
    if issubclass(kind, _TEXTS):
        return "its letters" if issubclass(kind, str) else "its bytes"
    if issubclass(kind, Mapping):
        return "its keys"
    if hasattr(kind, "__pydantic_fields__"):
        return "its fields"
    if kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] in _TABLES:
        return "the names of its columns"
    return None


def refuse_whole(result: Any) -> None:
    """Check one result.

    Raises:
        TypeError: it would be taken apart.
    """
    parts = whole(type(result))
    if parts is not None:
        raise TypeError(_text(result, parts))


def first_whole(results: Iterable[Any], count: int) -> tuple[int, BaseException | None]:
    """The number of results before the first that would be taken apart, and the error about it."""
    kept = [*results]
    kinds = {kind: parts for kind in set(map(type, kept)) if (parts := whole(kind)) is not None}
    if not kinds:
        return count, None
    index = next(index for index, one in enumerate(kept) if type(one) in kinds)
    return index, TypeError(_text(kept[index], kinds[type(kept[index])]))


def _text(result: Any, parts: str) -> str:
    kind = type(result).__name__
    return (
        f"expected values in a list, or yielded, got the {kind} {shown(result)}, which would be "
        f"taken apart into {parts}; return [result], or a list of what is meant"
    )
