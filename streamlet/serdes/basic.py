"""The formats of single values, byte for byte those of Kafka's own serdes.

Each has a fast way for a column: one pass in C, and checks that look at the column as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import NoneType
from typing import Any
from uuid import UUID

import attrs
import msgspec

from streamlet.arguments import told_by_form
from streamlet.columnwise import (
    all_of,
    decode_texts,
    encode_texts,
    pack_floats,
    pack_ints,
    unpack_floats,
    unpack_ints,
)
from streamlet.errors import SerdeError
from streamlet.lazy_results import FINE, count_before_promise, refuse_promise
from streamlet.logs import get_logger
from streamlet.serdes.serde import CUSTOM, Serde, as_it_is, build

log = get_logger(__name__)

_UUID_CHARACTERS = 36


def text() -> Serde[str]:
    """Strict UTF-8: other bytes and lone surrogates are errors. Kafka: StringSerde."""
    return build(
        "str",
        str.encode,
        bytes.decode,
        accepts=frozenset({str}),
        exact=str,
        declared=str,
        immutable=True,
        encode_all=encode_texts,
        decode_all=decode_texts,
        shortest=b"",
        format="str",
    )


def integer() -> Serde[int]:
    """Eight bytes, big-endian, two's complement. Kafka: LongSerde.

    Range scans compare bytes, and in this format every negative number sorts behind every positive
    one. It is kept because Java reads and writes the same topics; a scan over negative keys
    needs two scans. Numbers beyond 64 bits are an error.
    """
    return _whole("int", "q")


@told_by_form
def int32() -> Serde[int]:
    """Whole numbers of four bytes, big-endian, two's complement. Kafka: IntegerSerde.

    A number beyond 32 bits is a ``SerdeError``.
    """
    return _whole("int32", "i")


@told_by_form
def int16() -> Serde[int]:
    """Whole numbers of two bytes, big-endian, two's complement. Kafka: ShortSerde.

    A number beyond 16 bits is a ``SerdeError``.
    """
    return _whole("int16", "h")


def number() -> Serde[float]:
    """Eight bytes, IEEE 754 double, big-endian. Kafka: DoubleSerde.

    An int is taken as well, as Python's type checkers allow it for a float, and returns as a float.
    """
    return _floating("float", "d")


@told_by_form
def float32() -> Serde[float]:
    """Floats of four bytes, IEEE 754 single, big-endian. Kafka: FloatSerde.

    A float is rounded to the nearest one of 24 binary digits when it is written: 0.1 returns as
    0.10000000149011612. So keep results that add up as ``float``, and write them with this one. A
    number that is too large is a ``SerdeError``.
    """
    return _floating("float32", "f")


def _whole(name: str, code: str) -> Serde[int]:
    one = struct.Struct(f">{code}")
    return build(
        name,
        one.pack,
        lambda raw: int(_one_unpacked(one, raw)),
        accepts=frozenset({int}),
        exact=int,
        declared=int,
        immutable=True,
        encode_all=pack_ints if code == "q" else None,
        decode_all=_unpacking(code, one.size),
        shortest=bytes(one.size),
        format=name,
    )


def _floating(name: str, code: str) -> Serde[float]:
    one = struct.Struct(f">{code}")
    serde = build(
        name,
        one.pack,
        lambda raw: float(_one_unpacked(one, raw)),
        accepts=frozenset({float, int}),
        declared=float,
        immutable=True,
        encode_all=_packing_floats(one) if code == "d" else None,
        decode_all=_unpacking(code, one.size),
        shortest=bytes(one.size),
        format=name,
    )

    def rounded(value: Any) -> Any:
        return None if value is None else serde.decode(serde.encode(value))

    def as_float(value: Any) -> Any:
        return value if type(value) is float else rounded(value)

    return attrs.evolve(serde, as_kept=as_float if code == "d" else rounded)


def _one_unpacked(one: struct.Struct, raw: bytes) -> Any:
    try:
        return one.unpack(raw)[0]
    except struct.error as error:
        raise ValueError(
            f"expected {one.size} bytes, big-endian as Java writes them; streamlet.json() reads "
            "numbers that are text"
        ) from error


def _packing_floats(one: struct.Struct) -> Callable[[list[float]], list[bytes]]:
    """The eight bytes of a column; an int among its floats has it done in Python."""

    def pack(column: list[float]) -> list[bytes]:
        if pack_floats is not None and all_of(column, float):
            return pack_floats(column)
        return list(map(one.pack, column))

    return pack


def _unpacking(code: str, size: int) -> Callable[[list[bytes]], list[Any]]:
    """The numbers of a column by the extension where it knows their format, else in Python."""
    quick: Callable[[list[bytes]], list[Any]] | None = _QUICK.get(code)
    return quick or (lambda column: _unpacked(column, code, size))


_QUICK: dict[str, Any] = {"q": unpack_ints, "d": unpack_floats}


def _unpacked(column: list[bytes], code: str, size: int) -> list[Any]:
    # The lengths must be asked one by one: a 7 and a 9 would unpack as well, into wrong numbers.
    if set(map(len, column)) - {size}:
        raise SerdeError(f"an entry is not {size} bytes long")
    return list(struct.unpack(f">{len(column)}{code}", b"".join(column)))


def binary() -> Serde[bytes]:
    """The bytes themselves. Kafka: ByteArraySerde, BytesSerde, ByteBufferSerde."""
    return build(
        "bytes",
        as_it_is,
        _checked_bytes,
        accepts=frozenset({bytes}),
        exact=bytes,
        declared=bytes,
        immutable=True,
        encode_all=as_it_is,
        decode_all=as_it_is,
        shortest=b"",
        format="bytes",
    )


def _checked_bytes(raw: bytes) -> bytes:
    if type(raw) is not bytes:
        raise TypeError("not bytes")
    return raw


def boolean() -> Serde[bool]:
    """One byte, 0 or 1. Kafka: BooleanSerde."""
    to_bytes: dict[bool, bytes] = {False: b"\x00", True: b"\x01"}
    from_bytes = {raw: value for value, raw in to_bytes.items()}

    def decode_one(raw: bytes) -> bool:
        if raw not in from_bytes:
            raise ValueError("expected one byte, 0 or 1")
        return from_bytes[raw]

    return build(
        "bool",
        to_bytes.__getitem__,
        decode_one,
        accepts=frozenset({bool}),
        declared=bool,
        immutable=True,
        decode_all=lambda column: list(map(from_bytes.__getitem__, column)),
        shortest=to_bytes[False],
        format="bool",
    )


def identifier() -> Serde[UUID]:
    """The 36 characters of a UUID. Kafka: UUIDSerde."""
    # msgspec reads and writes a UUID three to five times as fast as uuid.UUID, but as JSON text.
    decode_text: Callable[[bytes], UUID] = msgspec.json.Decoder(UUID).decode
    encode_text = msgspec.json.Encoder().encode

    def decode_one(raw: bytes) -> UUID:
        if len(raw) != _UUID_CHARACTERS:
            raise ValueError(f"expected {_UUID_CHARACTERS} characters")
        return decode_text(b'"%b"' % raw)

    return build(
        "uuid",
        lambda value: encode_text(value)[1:-1],
        decode_one,
        accepts=frozenset({UUID}),
        declared=UUID,
        immutable=True,
        format="uuid",
    )


def nothing() -> Serde[None]:
    """Only null; any bytes and any value are errors. Kafka: VoidSerde."""

    def encode_one(value: None) -> bytes:
        raise SerdeError("None: null has no bytes")

    def decode_one(raw: bytes) -> None:
        raise ValueError("expected null")

    accepts = frozenset({NoneType})
    return build("None", encode_one, decode_one, accepts=accepts, immutable=True, format="None")


class _Nulls:
    """Values that a user's ``decode`` makes null, as with a deserializer of Kafka Streams.

    The first one is worth a warning: a table deletes its row, which may not be meant.
    """

    def __init__(self, name: str) -> None:
        self._name, self._warned = name, False

    def seen(self, value: Any) -> Any:
        """The value; a warning once if it is None."""
        if value is None and not self._warned:
            self._warned = True
            log.warning(
                "serde %s: decode returned None for bytes: that is a null key or value, for which "
                "a table deletes its row; raise an error for bytes that cannot be read",
                self._name,
            )
        return value


def custom(encode: Callable[[Any], bytes], decode: Callable[[bytes], Any], name: str) -> Serde[Any]:
    """A serde out of a user's two functions.

    What ``encode`` returns must be bytes; whatever the functions raise becomes a ``SerdeError``,
    and so does what ``decode`` returns first and never runs, such as a coroutine. None from
    ``decode`` is null (``_Nulls``).
    """
    nulls = _Nulls(name)

    def decode_one(raw: bytes) -> Any:
        value = decode(raw)
        if type(value) not in FINE:
            refuse_promise(value)
        return nulls.seen(value)

    def decode_all(column: list[bytes]) -> list[Any]:
        out = list(map(decode, column))
        if out:
            refuse_promise(out[0])
        if NoneType in set(map(type, out)):
            nulls.seen(None)
        return out

    def encode_one(value: Any) -> bytes:
        raw = encode(value)
        if type(raw) is not bytes:
            refuse_promise(raw)
            raise SerdeError(f"{name}: encode returned {type(raw).__name__}, not bytes")
        return raw

    def encode_all(column: list[Any]) -> list[bytes]:
        out = list(map(encode, column))
        if set(map(type, out)) - {bytes}:
            count_before_promise(out)  # which closes them
            raise SerdeError(f"{name}: encode returned something else than bytes")
        return out

    encode_one.__wrapped__ = encode  # type: ignore[attr-defined]
    decode_one.__wrapped__ = decode  # type: ignore[attr-defined]
    return build(
        name,
        encode_one,
        decode_one,
        encode_all=encode_all,
        decode_all=decode_all,
        format=CUSTOM,
    )


def checked(given: Serde[Any]) -> Serde[Any]:
    """A serde that a program made by itself, as it is but for what its functions do wrong.

    Bytes are to be bytes, or None to delete a row; what the functions raise is a ``SerdeError``.
    """

    def encode_one(value: Any) -> bytes:
        raw: Any = given.encode(value)
        if type(raw) is not bytes and raw is not None:
            refuse_promise(raw)
            raise SerdeError(f"{given.name}: encode returned {type(raw).__name__}, not bytes")
        return raw  # type: ignore[return-value]

    nulls = _Nulls(given.name)

    def decode_one(raw: bytes) -> Any:
        return nulls.seen(given.decode(raw))

    def decode_all(column: list[bytes]) -> list[Any]:
        assert given.decode_all is not None
        out = given.decode_all(column)
        if NoneType in set(map(type, out)):
            nulls.seen(None)
        return out

    fast = given.decode_all if given.decode_all in (None, as_it_is) else decode_all
    encode_one.__wrapped__ = given.encode  # type: ignore[attr-defined]
    decode_one.__wrapped__ = given.decode  # type: ignore[attr-defined]
    made = build(given.name, encode_one, decode_one)
    return attrs.evolve(
        given,
        encode=made.encode,
        decode=made.decode,
        encode_all=None,
        decode_all=fast,
        format=given.format or CUSTOM,
    )


#: What is asked for by the plain type itself.
BY_TYPE: dict[object, Callable[[], Serde[Any]]] = {
    str: text,
    int: integer,
    float: number,
    bytes: binary,
    bool: boolean,
    UUID: identifier,
    None: nothing,
    NoneType: nothing,
}
