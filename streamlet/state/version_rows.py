"""The rows of a versioned store: versions of one key, each valid until the next one begins.

A key has one *head*, with its newest versions, and any number of *chunks* with older ones. The head
knows the times at which its chunks end. A chunk has the versions that began before its end, and at
or behind the end of the chunk before it; so it is needed as long as its end is in the history.
"""

from __future__ import annotations

import struct
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from streamlet.absent import explains_misuse
from streamlet.serdes import Serde
from streamlet.serdes.serde import build_rows
from streamlet.state.headed_parts import HeadedPart, read_block, with_block, written_block

V = TypeVar("V")

#: A version: the time from which on it is valid, ms, and its value; None: the key was deleted.
Version: TypeAlias = tuple[int, Any]
#: The ends of the key's chunks, ascending (of a head only), and versions, ascending.
VersionRow: TypeAlias = tuple[list[int], list[Version]]

#: The time in the key of a head, behind those of all chunks.
HEAD = (1 << 63) - 1
#: Versions in a row; one more, and a half of them goes to a chunk of its own.
ROW_VERSIONS = 8

_COUNT = struct.Struct(">I")
_TIME = struct.Struct(">q")
#: Time and length of a version's value; -1 stands for the length of None. Where the headers of the
#: version are behind its value, the length is ``_HEADED`` less it.
_VERSION = struct.Struct(">qi")
_NONE = -1
_HEADED = -3


@explains_misuse
class VersionedRecord(NamedTuple, Generic[V]):
    """A value that a versioned store had at a time.

    Attributes:
        value: the value.
        timestamp: from when on it is valid, ms.
        valid_to: when the next version began, ms; None: it is the newest one.
    """

    value: V
    timestamp: int
    valid_to: int | None = None


def version_rows(value: Serde[Any]) -> Serde[VersionRow]:
    """The serde of rows whose versions have values of a serde."""

    def encode_all(rows: list[VersionRow]) -> list[bytes]:
        raws = iter(value.encode_rows([one for _, versions in rows for _, one in versions]))
        return [_joined(bounds, [(one, next(raws)) for one in vs]) for bounds, vs in rows]

    def decode(raw: bytes) -> VersionRow:
        (count,) = _COUNT.unpack_from(raw)
        at = _COUNT.size + count * _TIME.size
        bounds = [int(end) for (end,) in _TIME.iter_unpack(raw[_COUNT.size : at])]
        versions: list[Version] = []
        while at < len(raw):
            time, length = _VERSION.unpack_from(raw, at)
            at += _VERSION.size
            is_headed = length < _NONE
            length = _HEADED - length if is_headed else length
            end = at + max(0, length)
            version: Any = time, None if length == _NONE else value.decode(raw[at:end])
            if is_headed:
                block, end = read_block(raw, end)
                version = with_block(version, block)
            versions.append(version)
            at = end
        return bounds, versions

    name = f"versions of {value.name}"
    return build_rows(name, encode_all, decode, tuple)


def _joined(bounds: list[int], versions: list[tuple[Version, bytes | None]]) -> bytes:
    parts = [_COUNT.pack(len(bounds)), *map(_TIME.pack, bounds)]
    for version, raw in versions:
        length = _NONE if raw is None else len(raw)
        if isinstance(version, HeadedPart):
            head = _VERSION.pack(version[0], _HEADED - length)
            parts += [head, raw or b"", written_block(version)]
        else:
            parts += [_VERSION.pack(version[0], length), raw or b""]
    return b"".join(parts)
