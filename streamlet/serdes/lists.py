"""Lists in the format of Kafka's ``ListSerde`` (KIP-466)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from streamlet.arguments import told_by_form
from streamlet.serdes.resolve import SerdeLike, serde
from streamlet.serdes.serde import ColumnError, Serde, build

T = TypeVar("T")

_INT = struct.Struct(">i")
#: Format -> the bytes of each of its values, for those whose size Java leaves out. Booleans have
#: one byte each, and their size is written all the same.
_SIZES = {"int16": 2, "int32": 4, "float32": 4, "int": 8, "float": 8, "uuid": 36}
#: The first byte of a list: entries are of one size, or each has its size in front.
_CONSTANT, _VARIABLE = b"\x00", b"\x01"
#: The size of a null entry.
_NULL = -1


@told_by_form
def list_of(entry: SerdeLike[T]) -> Serde[list[T | None]]:
    """Lists of one type, as Kafka's ``ListSerde`` writes them. Kafka: KIP-466.

    Entries may be None. ``int``, ``float``, ``uuid.UUID``, ``int32()``, ``int16()`` and
    ``float32()`` are written one behind the other with the places of nulls in front, all other
    types with the size of each entry; a list in a list is ``list_of(list_of(int))``. For lists as
    JSON, give ``list[T]`` as the type.

    Raises:
        SerdeError: there is no serde for the entries.
    """
    inner = serde(entry)
    own = inner.as_value
    found = _list_of(inner)
    return found if own is None else attrs.evolve(found, as_value=_list_of(own))


def _list_of(inner: Serde[Any]) -> Serde[list[Any]]:
    size = _SIZES.get(inner.format)
    encode: Callable[[list[Any]], bytes]
    decode: Callable[[bytes], list[Any]]
    if size is None:
        encode, decode = _with_sizes(inner)
    else:
        encode, decode = _of_one_size(inner, size)
    return build(
        f"list of {inner.name}",
        encode,
        decode,
        accepts=frozenset({list}),
        shortest=encode([]),
    )


def _of_one_size(
    inner: Serde[Any], size: int
) -> tuple[Callable[[list[Any]], bytes], Callable[[bytes], list[Any]]]:
    """Flag, number of nulls, their places, number of entries, entries that are not null."""

    def encode(entries: list[Any]) -> bytes:
        nulls = [place for place, entry in enumerate(entries) if entry is None]
        numbers = (len(nulls), *nulls, len(entries))
        present = _whole(inner.encode_column, [entry for entry in entries if entry is not None])
        return b"".join((_CONSTANT, struct.pack(f">{len(numbers)}i", *numbers), *present))

    def decode(raw: bytes) -> list[Any]:
        _check_flag(raw, _CONSTANT, inner)
        (count,) = _INT.unpack_from(raw, 1)
        *nulls, length = struct.unpack_from(f">{count}ii", raw, 5)
        start = 9 + 4 * count
        expected = start + size * (length - count)
        if expected != len(raw):
            raise ValueError(f"expected {expected} bytes, got {len(raw)}")
        gone = frozenset(nulls)
        if len(gone) < count or (gone and not 0 <= min(gone) <= max(gone) < length):
            raise ValueError(f"the places of {count} nulls are not those of a list of {length}")
        present = _whole(
            inner.decode_column, [raw[at : at + size] for at in range(start, len(raw), size)]
        )
        following = iter(present)
        return (
            [None if place in gone else next(following) for place in range(length)]
            if gone
            else present
        )

    return encode, decode


def _with_sizes(
    inner: Serde[Any],
) -> tuple[Callable[[list[Any]], bytes], Callable[[bytes], list[Any]]]:
    """Flag, number of entries, then each entry behind its size, which is -1 for null."""

    def encode(entries: list[Any]) -> bytes:
        parts = [_VARIABLE, _INT.pack(len(entries))]
        for raw in _whole(inner.encode_column, entries):
            parts += (_INT.pack(_NULL),) if raw is None else (_INT.pack(len(raw)), raw)
        return b"".join(parts)

    def decode(raw: bytes) -> list[Any]:
        _check_flag(raw, _VARIABLE, inner)
        (length,) = _INT.unpack_from(raw, 1)
        found: list[bytes | None] = []
        at = 5
        for _ in range(length):
            (size,) = _INT.unpack_from(raw, at)
            at += 4 + max(size, 0)
            if size < _NULL or at > len(raw):
                raise ValueError(f"entry {len(found)} has size {size}")
            found.append(None if size == _NULL else raw[at - size : at])
        if at != len(raw) or length < 0:
            raise ValueError(f"{len(raw) - at} bytes are left over behind {length} entries")
        return _whole(inner.decode_column, found)

    return encode, decode


# A column's error is a serde's own and would go on as it is: the list adds its name to others only.


def _whole(column: Callable[[list[Any]], list[Any]], entries: list[Any]) -> list[Any]:
    try:
        return column(entries)
    except ColumnError as error:
        raise ValueError(str(error)) from error


def _check_flag(raw: bytes, expected: bytes, inner: Serde[Any]) -> None:
    if raw[:1] != expected:
        raise ValueError(f"not a list of {inner.name}: its first byte is not {expected[0]}")
