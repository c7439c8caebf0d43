"""The entries of a sorted run: blocks of rows, and the nodes of the index that leads to them.

A node has the first row of each of its children, in order. One right above blocks also has a
fingerprint of two bytes for each row, so that a block without the wanted row is not read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

import attrs
import msgspec

from streamlet.errors import StateError

#: Store, key, value of a row; None is a tombstone.
Row = tuple[str, bytes, bytes | None]
#: Per store its rows, in the order of their keys.
Block = dict[str, dict[bytes, bytes | None]]
#: Store and key of a first row.
Place = tuple[str, bytes]

_Parts = list[tuple[str, list[bytes], list[bytes | None]]]

_encode = msgspec.msgpack.Encoder().encode
_decode_block = msgspec.msgpack.Decoder(_Parts).decode


class NodeForm(msgspec.Struct, array_like=True, frozen=True):
    """A node as it is kept."""

    first: int
    places: list[Place]
    prints: list[bytes]


_decode_node = msgspec.msgpack.Decoder(NodeForm).decode


@attrs.define
class Node:
    """A node of an index.

    Args:
        first: its first child, counted among all of the level below.
        places: the first row of each child.
        prints: the fingerprints of each child's rows, where the children are blocks.
    """

    first: int
    places: list[Place]
    prints: list[bytes | frozenset[int]]

    def child(self, place: Place) -> int:
        """The child in which a row would be; one before the first if in none."""
        return self.first + bisect_right(self.places, place) - 1

    def may_have(self, child: int, print_: int) -> bool:
        """False if a block has no row with this fingerprint."""
        at = child - self.first
        known = self.prints[at]
        if isinstance(known, bytes):
            known = self.prints[at] = frozenset(array("H", known))
        return print_ in known

    @property
    def end(self) -> int:
        """The number behind its last child."""
        return self.first + len(self.places)


def fingerprint(store: str, key: bytes) -> int:
    """Two bytes of a row's hash."""
    return crc32(key, crc32(store.encode())) & 0xFFFF


def decoded_node(entry: bytes) -> Node:
    """A node out of its entry.

    Raises:
        StateError: the entry is damaged.
    """
    try:
        found = _decode_node(entry)
    except (ValueError, RecursionError) as error:  # msgspec's errors, and those of UTF-8
        raise _damaged(entry, error) from error
    if any(len(prints) % 2 for prints in found.prints):
        raise _damaged(entry, "half a fingerprint")
    return Node(found.first, found.places, list(found.prints))


def decoded_block(entry: bytes) -> Block:
    """A block out of its entry.

    Raises:
        StateError: the entry is damaged.
    """
    try:
        parts = _decode_block(entry)
        return {store: dict(zip(keys, values, strict=True)) for store, keys, values in parts}
    except (ValueError, RecursionError) as error:
        raise _damaged(entry, error) from error


def _damaged(entry: bytes, why: object) -> StateError:
    return StateError(
        f"{len(entry)} bytes of the checkpoint's state are damaged ({why}): start again with a new"
        " checkpoint"
    )


@attrs.define
class Level:
    """Makes the nodes of one level out of the first rows of its children.

    Args:
        most: size of a node, bytes, unless its keys are long.
    """

    most: int
    #: Children of finished nodes and of the one that is being made.
    count: int = 0
    _places: list[Place] = attrs.field(factory=list)
    _prints: list[bytes] = attrs.field(factory=list)
    _size: int = 0

    def add(self, place: Place, prints: bytes = b"") -> tuple[Place, bytes] | None:
        """Take a child; the first row and the entry of a node that is full before it, if one is."""
        size = len(place[0]) + len(place[1]) + len(prints) + _ABOUT
        is_full = len(self._places) >= _FEWEST and self._size + size > self.most
        full = self.finished() if is_full else None
        self._places.append(place)
        if prints:
            self._prints.append(prints)
        self._size += size
        self.count += 1
        return full

    def finished(self) -> tuple[Place, bytes]:
        """The first row and the entry of the node that was being made."""
        node = NodeForm(self.count - len(self._places), self._places, self._prints)
        found = self._places[0], _encode(node)
        self._places, self._prints, self._size = [], [], 0
        return found


#: Children of a node at least, but for the last one of a level: each level has fewer nodes than the
#: one below, however long keys are.
_FEWEST = 2

#: What a child costs in a node beside its names, bytes.
_ABOUT = 6


def encoded_blocks(rows: Iterable[Row], most: int) -> Iterator[tuple[bytes, Place, bytes, int]]:
    """Sorted rows in blocks of about so many bytes.

    For each its entry, first row, fingerprints, and the size of its keys and values.
    """
    for block, size in _blocks(rows, most):
        parts = [(store, list(some), list(some.values())) for store, some in block.items()]
        yield _encode(parts), (parts[0][0], parts[0][1][0]), _prints(parts), size


def _prints(parts: Sequence[tuple[str, list[bytes], list[bytes | None]]]) -> bytes:
    found = array("H")
    for store, keys, _ in parts:
        begin = crc32(store.encode())
        found.extend(crc32(key, begin) & 0xFFFF for key in keys)
    return found.tobytes()


def _blocks(rows: Iterable[Row], most: int) -> Iterator[tuple[Block, int]]:
    block: Block = {}
    size = 0
    for store, key, value in rows:
        block.setdefault(store, {})[key] = value
        size += len(key) + len(value or b"")
        if size >= most:
            yield block, size
            block, size = {}, 0
    if block:
        yield block, size
