"""Mutations of bytes, cheap enough for millions of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

Draw: TypeAlias = Callable[[], float]

_DIGITS = frozenset(b"0123456789")
#: Numbers as bytes, and text in place of a number or a word of JSON.
_NUMBERS = tuple(
    number.to_bytes(size, order, signed=True)
    for size in (1, 2, 4, 8)
    for number in (0, 1, -1, 127, -128, (1 << 8 * size - 1) - 1, -(1 << 8 * size - 1))
    for order in ("big", "little")
    if -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1
)
_WORDS = (
    *(b"-1", b"0", b"-0", b"1.5", b"1e308", b"1e400", b"NaN", b"Infinity", b"-Infinity"),
    *(b"true", b"false", b"null", b"[]", b"{}", b'""', b'"\\ud800"', b'"\xff"'),
    *(str(sign * (1 << bits) + more).encode() for bits in (31, 32, 40, 62, 63, 64, 70, 100)
      for sign in (1, -1) for more in (-1, 0, 1)),
)  # fmt: skip
_REPEATED = (b"[", b"{", b"\x91", b"\x81", b"\xff", b"\x80", b"\x00", b"9", b'{"a":', b"\xf0\x9f")
#: One input in so many is made long.
_LONG_ONE_IN = 5_000
LONG_BYTES = 1 << 20


def mutated(dice: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with a few things changed; now and then a long one."""
    draw = dice.random
    data = bytearray(seeds[int(draw() * len(seeds))])
    for _ in range(1 + int(draw() * draw() * 6)):
        _KINDS[int(draw() * len(_KINDS))](draw, data, seeds)
    if draw() * _LONG_ONE_IN < 1:
        _lengthen(draw, data)
    return bytes(data)


def _flip(draw: Draw, data: bytearray, seeds: Sequence[bytes]) -> None:
    if data:
        data[int(draw() * len(data))] ^= 1 << int(draw() * 8)


def _set(draw: Draw, data: bytearray, seeds: Sequence[bytes]) -> None:
    if data:
        data[int(draw() * len(data))] = int(draw() * 256)


def _number(draw: Draw, data: bytearray, seeds: Sequence[bytes]) -> None:
    new = _NUMBERS[int(draw() * len(_NUMBERS))]
    at = int(draw() * (len(data) + 1))
    data[at : at + len(new)] = new


def _insert(draw: Draw, data: bytearray, seeds: Sequence[bytes]) -> None:
    at = int(draw() * (len(data) + 1))
    data[at:at] = _NUMBERS[int(draw() * len(_NUMBERS))]


def _cut(draw: Draw, data: bytearray, seeds: Sequence[bytes]) -> None:
    at = int(draw() * (len(data) + 1))
    del data[at : at + 1 + int(draw() * draw() * 16)]


def _end(draw: Draw, data: bytearray, seeds: Sequence[bytes]) -> None:
    del data[int(draw() * (len(data) + 1)) :]


def _double(draw: Draw, data: bytearray, seeds: Sequence[bytes]) -> None:
    at = int(draw() * (len(data) + 1))
    piece = data[at : at + 1 + int(draw() * 24)]
    data[at:at] = piece * (1 + int(draw() * 4))


def _splice(draw: Draw, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = seeds[int(draw() * len(seeds))]
    start = int(draw() * (len(other) + 1))
    at = int(draw() * (len(data) + 1))
    data[at : at + int(draw() * 16)] = other[start : start + 1 + int(draw() * 32)]


def _word(draw: Draw, data: bytearray, seeds: Sequence[bytes]) -> None:
    """Another word in place of a number or a text of JSON, where there is one behind some place."""
    at = int(draw() * (len(data) + 1))
    while at < len(data) and data[at] not in _DIGITS:
        at += 1
    end = at
    while end < len(data) and data[end] in _DIGITS:
        end += 1
    data[at:end] = _WORDS[int(draw() * len(_WORDS))]


def _repeat(draw: Draw, data: bytearray, seeds: Sequence[bytes]) -> None:
    at = int(draw() * (len(data) + 1))
    piece = _REPEATED[int(draw() * len(_REPEATED))]
    data[at:at] = piece * int(draw() * draw() * 200)


_KINDS = (_flip, _set, _number, _insert, _cut, _end, _double, _splice, _word, _word, _repeat)


def _lengthen(draw: Draw, data: bytearray) -> None:
    """Repeat some of it until it is long."""
    start = int(draw() * (len(data) + 1))
    piece = data[start : start + 1 + int(draw() * 64)] or _REPEATED[int(draw() * len(_REPEATED))]
    size = int(draw() * draw() * LONG_BYTES)
    data[start:start] = piece * (size // len(piece))
