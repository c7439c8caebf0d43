"""Results of ``flat_map`` and ``flat_map_values`` that Python would take apart.

A text gives its letters, a dict its keys, a table of pandas or polars the names of its columns, a
model of pydantic its fields: a function that returns one has forgotten the list around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import GeneratorType
from typing import Any

from streamlet.lazy_results import refuse_promise
from streamlet.user_code import package_of, shown

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
    if kind.__name__ == "DataFrame" and package_of(kind) in _TABLES:
        return "the names of its columns"
    return None


def several(results: Any, what: str = "values") -> Iterable[Any]:
    """The results that a function returns together, or yields; ``what`` messages call them.

    Raises:
        TypeError: there are none in it, it never runs, or it would be taken apart.
    """
    kind = type(results)
    if kind in _FINE:
        return results  # type: ignore[no-any-return]
    refuse_promise(results, yields=True)
    parts = whole(kind)
    if parts is not None:
        raise TypeError(
            f"expected {what} in a list, or yielded, got the {kind.__name__} {shown(results)}, "
            f"which would be taken apart into {parts}; return [result], or a list of what is meant"
        )
    if not isinstance(results, Iterable) and not hasattr(kind, "__getitem__"):
        raise TypeError(f"expected {what}, in a list or yielded, [] for none, got {shown(results)}")
    return results  # type: ignore[no-any-return]
