"""Windowed keys and their formats: those of Java's windowed serdes, and JSON."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from streamlet.absent import explains_misuse
from streamlet.arguments import told_by_form, types_checked_inside
from streamlet.columnwise import window_keys
from streamlet.config.values import duration
from streamlet.errors import SerdeError
from streamlet.serdes.json_serde import json
from streamlet.serdes.resolve import SerdeLike, serde
from streamlet.serdes.serde import Serde, build
from streamlet.user_code import shown

K = TypeVar("K")

#: The end of a window that never closes, as in Java.
NO_END = 2**63 - 1

_LONG = struct.Struct(">q")
_LONGS = struct.Struct(">qq")


@explains_misuse
class Windowed(NamedTuple, Generic[K]):
    """A key in a window; times in ms since the epoch.

    ``end`` is behind a tumbling or hopping window, and the last ms of a sliding or session window,
    as in Kafka Streams.
    """

    key: K
    start: int
    end: int


_key_of, _start_of = itemgetter(0), itemgetter(1)


def plain_window_keys(heads: list[Any], windows: list[Windowed[Any]]) -> list[bytes]:
    """The bytes of keys, each before the eight bytes of its window's start."""
    tails = {start: _LONG.pack(start) for start in set(map(_start_of, windows))}
    pairs = zip(heads, map(_start_of, windows), strict=True)
    return [head + tails[start] for head, start in pairs]


_keys: Callable[[list[Any], list[Windowed[Any]]], list[bytes]] = window_keys or plain_window_keys

#: Makes a ``Windowed`` of a tuple ``(key, start, end)``, quicker than its constructor.
windowed_of: Callable[[Iterable[Any]], Windowed[Any]] = partial(tuple.__new__, Windowed)


@types_checked_inside
def time_windowed(
    key: SerdeLike[K], size_ms: int | str | timedelta | None = None
) -> Serde[Windowed[K]]:
    """Keys of tumbling, hopping and sliding windows, as Java's ``TimeWindowedSerde`` writes them.

    The bytes of the key, then the start. The end is not written: it is ``size_ms`` after the start
    (a sliding window's time difference), or that of an unlimited window without a size.

    Raises:
        SerdeError: there is no serde for the key, or the size is none.
    """
    try:
        size = None if size_ms is None else duration(1).parse(size_ms)
    except ValueError as error:
        raise SerdeError(f"time_windowed(size_ms={shown(size_ms)}): {error}") from error
    text = "unlimited" if size is None else f"{size} ms"
    return windowed_until(serde(key), lambda start: NO_END if size is None else start + size, text)


def windowed_until(
    inner: Serde[Any], end_of: Callable[[int], int], text: str
) -> Serde[Windowed[Any]]:
    """The serde of windows whose ends follow from their starts; ``text`` names them."""

    def encode(value: Windowed[Any]) -> bytes:
        return inner.encode(value.key) + _LONG.pack(value.start)

    def encode_all(column: list[Windowed[Any]]) -> list[bytes]:
        return _keys(inner.encode_column(list(map(_key_of, column))), column)

    def decode(raw: bytes) -> Windowed[Any]:
        (start,) = _LONG.unpack(raw[-8:])
        return Windowed(inner.decode(raw[:-8]), start, end_of(start))

    name = f"windowed({inner.name}, {text})"
    return _windowed(name, inner, encode, decode, encode_all, _LONG.size)


@told_by_form
def session_windowed(key: SerdeLike[K]) -> Serde[Windowed[K]]:
    """Keys of session windows, as Java's ``SessionWindowedSerde`` writes them.

    The bytes of the key, then the end, then the start.

    Raises:
        SerdeError: there is no serde for the key.
    """
    inner = serde(key)

    def encode(value: Windowed[Any]) -> bytes:
        return inner.encode(value.key) + _LONGS.pack(value.end, value.start)

    def decode(raw: bytes) -> Windowed[Any]:
        end, start = _LONGS.unpack(raw[-16:])
        return Windowed(inner.decode(raw[:-16]), start, end)

    return _windowed(f"session({inner.name})", inner, encode, decode, None, _LONGS.size)


class _Document(msgspec.Struct):
    key: msgspec.Raw
    start: int
    end: int


@told_by_form
def windowed_json(key: type[K]) -> Serde[Windowed[K]]:
    """Keys of any windows as JSON: ``{"key": …, "start": …, "end": …}``.

    ``key`` is the type of the key, as of ``json``.

    Raises:
        SerdeError: JSON cannot carry the type.
    """
    inner = json(key)
    decoder = msgspec.json.Decoder(_Document)

    def encode(value: Windowed[Any]) -> bytes:
        tail = b',"start":%d,"end":%d}' % (value.start, value.end)
        return b'{"key":' + inner.encode(value.key) + tail

    def decode(raw: bytes) -> Windowed[Any]:
        found = decoder.decode(raw)
        return Windowed(inner.decode(bytes(found.key)), found.start, found.end)

    return _windowed(f"windowed {inner.name}", inner, encode, decode, None)


def _windowed(
    name: str,
    inner: Serde[Any],
    encode: Callable[[Windowed[Any]], bytes],
    decode: Callable[[bytes], Windowed[Any]],
    encode_all: Callable[[list[Windowed[Any]]], list[bytes]] | None,
    window_bytes: int = 0,
) -> Serde[Windowed[Any]]:
    def encode_one(value: Windowed[Any]) -> bytes:
        if value.key is None:
            raise SerdeError(f"{name}: a windowed key cannot be None")
        return encode(value)

    of: Any = inner.declared
    return build(
        name,
        encode_one,
        decode,
        accepts=frozenset({Windowed}),
        immutable=inner.immutable,
        encode_all=encode_all,
        window_bytes=window_bytes,
        declared=Windowed[of] if isinstance(of, type) else None,
    )
