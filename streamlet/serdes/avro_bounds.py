"""Bounds of an Avro record's bytes, checked before fastavro reads them, which has none.

Its reader calls itself for each level. Bytes of a type that contains itself can nest a level with
each of them: some thousands overflow the stack, which ends the process. Of a decimal of a megabyte
Python makes a number in two minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from streamlet.errors import SerdeError

#: Levels that are read. No deeper value can be written: that ends where calls of Python do.
MOST_LEVELS = 1_000
#: Bytes of a decimal, at most: they hold 9,632 digits.
MOST_DECIMAL_BYTES = 4_000
#: Bytes of a whole number, at most.
_LONGEST_NUMBER = 10
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS = frozenset({"int", "long", "enum"})
_MASK = (1 << 64) - 1


class _Type:
    """A type of a schema: what its bytes are, and the types within."""

    __slots__ = ("decimal", "parts", "size", "sort")

    def __init__(self, sort: str, size: int = 0, *, decimal: bool = False) -> None:
        self.sort, self.size, self.decimal = sort, size, decimal
        self.parts: list[_Type] = []


def bounds_check(schema: Any, named: dict[str, Any]) -> Callable[[bytes], None] | None:
    """A check that raises ``ValueError`` for bytes beyond the bounds; None: no bytes can be.

    Args:
        schema: a parsed one.
        named: its named types.

    Raises:
        SerdeError: a record is in each of its own values, which have no end then.
    """
    root = _typed(schema, named)
    level, outer = {root}, set[_Type]()
    decimals = root.decimal
    for _ in range(MOST_LEVELS):
        outer |= {one for one in level if one.parts}
        level = {part for one in level for part in one.parts}
        decimals = decimals or any(one.decimal for one in level)
        if not level:
            return partial(_check_long, root, MOST_DECIMAL_BYTES) if decimals else None
    if _never_ends(outer):
        raise SerdeError("avro: not a valid schema: each value of a record has another one in it")
    # A byte at least leads from a type to the same one within it.
    least = min(MOST_LEVELS // len(outer), MOST_DECIMAL_BYTES)
    return partial(_check_long, root, least)


def _never_ends(types: set[_Type]) -> bool:
    """True if a record is within itself by records alone."""
    left = {one for one in types if one.sort == "record"}
    while ended := {one for one in left if left.isdisjoint(one.parts)}:
        left -= ended
    return bool(left)


def _check_long(root: _Type, least: int, raw: bytes) -> None:
    """Check bytes, unless they are too few to be beyond the bounds."""
    if len(raw) > least:
        _Walk(raw).check(root)


def _typed(schema: Any, named: dict[str, Any]) -> _Type:
    """The type of a schema, with all those within."""
    made: dict[int, _Type] = {}
    todo: list[tuple[_Type, list[Any]]] = []

    def of(one: Any) -> _Type:
        while isinstance(one, dict) and not isinstance(one["type"], str):
            one = one["type"]
        if isinstance(one, str):
            one = named.get(one, {"type": one})
        if id(one) in made:
            return made[id(one)]
        if isinstance(one, list):
            found, within = _Type("union"), one
        else:
            found, within = _single(one)
            if found.sort not in ("record", "array", "map", "fixed", *_SIZES, *_NUMBERS):
                if found.sort in named:
                    return of(found.sort)
                found = _Type("bytes", decimal=found.decimal)
        if within:
            made[id(one)] = found
            todo.append((found, within))
        return found

    root = of(schema)
    while todo:
        outer, within = todo.pop()
        outer.parts = [of(one) for one in within]
    return root


def _single(schema: dict[str, Any]) -> tuple[_Type, list[Any]]:
    sort = schema["type"]
    if sort in ("record", "error"):
        return _Type("record"), [field["type"] for field in schema["fields"]]
    if sort in ("array", "map"):
        return _Type(sort), [schema["items" if sort == "array" else "values"]]
    size = schema["size"] if sort == "fixed" else _SIZES.get(sort, 0)
    return _Type(sort, size, decimal=schema.get("logicalType") == "decimal"), []


class _Walk:
    """Goes through the bytes as a reader would, without calls of its own for each level."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def check(self, root: _Type) -> None:
        """Raise ``ValueError`` where bytes nest too deep; broken ones are left to the reader."""
        todo = [iter((root,))]
        while todo:
            one = next(todo[-1], None)
            if one is None:
                todo.pop()
                continue
            inner = self._inner(one)
            if self._at > len(self._raw):
                return
            if inner is not None:
                todo.append(inner)
                if len(todo) > MOST_LEVELS:
                    raise ValueError(f"it nests deeper than {MOST_LEVELS} levels")

    def _inner(self, one: _Type) -> Iterator[_Type] | None:
        """The values within one, of which the beginning is taken; None: it is taken whole."""
        if one.sort == "record":
            return iter(one.parts)
        if one.sort == "union":
            member = self._number()
            if not -len(one.parts) <= member < len(one.parts):  # a reader takes some below 0
                self._end()
                return None
            return iter((one.parts[member],))
        if one.sort in ("array", "map"):
            return self._items(one)
        if one.sort in _NUMBERS:
            self._number()
        elif one.sort == "bytes":
            self._text(one)
        else:
            self._take(one, one.size)
        return None

    def _items(self, one: _Type) -> Iterator[_Type]:
        while count := self._number():
            if count < 0:
                self._number()  # of bytes, which readers do not need
            for _ in range(abs(count)):
                before = self._at
                if one.sort == "map":
                    self._text(one)
                if self._at > len(self._raw):
                    return
                yield one.parts[0]
                if self._at == before:  # items without bytes are all alike
                    break

    def _text(self, one: _Type) -> None:
        size = self._number()
        self._take(one, size)

    def _take(self, one: _Type, size: int) -> None:
        if one.decimal and size > MOST_DECIMAL_BYTES:
            raise ValueError(f"a decimal takes more than {MOST_DECIMAL_BYTES} bytes")
        self._at += size
        if size < 0:
            self._end()

    def _number(self) -> int:
        found = 0
        for place in range(_LONGEST_NUMBER):
            if self._at >= len(self._raw):
                self._end()
                return 0
            byte = self._raw[self._at]
            self._at += 1
            found |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                found &= _MASK
                return (found >> 1) ^ -(found & 1)
        raise ValueError(f"a number takes more than {_LONGEST_NUMBER} bytes")

    def _end(self) -> None:
        """Go behind the bytes: a reader refuses what comes here."""
        self._at = len(self._raw) + 1
