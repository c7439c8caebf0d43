"""A serde turns values into bytes and back, one by one or a column at a time.

This file knows what a serde is and how columns with gaps and failures go through it. It knows no
format: those are in ``basic``, ``json_serde`` and ``avro``; ``resolve`` finds the one for a type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from inspect import unwrap
from types import NoneType
from typing import Any, Generic, TypeVar, cast

import attrs

from streamlet.absent import explained_in_errors
from streamlet.columnwise import all_of
from streamlet.errors import RegistryError, SerdeError
from streamlet.serdes.frames import frame_hint
from streamlet.user_code import base_hint, plain_hint, shown, text_of

T = TypeVar("T")

_SHOWN_BYTES = 48
#: The format of what two functions of a user write.
CUSTOM = "custom"
#: Errors that say nothing of the entry: Ctrl-C, wherever it arrives, and a registry that is away.
_NOT_OF_ENTRY = (KeyboardInterrupt, RegistryError)


class ColumnError(SerdeError):
    """The entry at ``index`` of a column failed; ``cause`` says why.

    ``done`` holds the results for the entries before it, so that the caller can send those on,
    apply the error policy to the one that failed and continue behind it.
    """

    def __init__(self, index: int, done: list[Any], cause: SerdeError) -> None:
        super().__init__(f"entry {index}: {cause}")
        self.index = index
        self.done = done
        self.cause = cause


@explained_in_errors
@attrs.frozen(eq=False, repr=False, slots=True)
class Serde(Generic[T]):
    """Turns values of one type into bytes and back.

    ``encode`` and ``decode`` take one value and raise ``SerdeError``; neither ever sees None, which
    is a null key or a tombstone and stays None in both directions.

    ``exact`` is the Python type that ``decode`` always returns if two values of that type are equal
    exactly when their bytes are equal (str, int and bytes only): such a value can stand for its
    bytes as a key of a dict. ``immutable`` means that a value cannot change in place, so that
    no copy is needed. ``accepts`` are the only types that ``encode`` takes; empty means any.
    ``shortest`` are the fewest bytes that ``decode`` takes; None where they are not known.
    ``window_bytes`` of a windowed key, at its end, say which window it is.
    ``fast_copy`` copies a value as its bytes would, None as None; None: by its bytes. ``copy_all``
    does so with a column, or gives None where values have to be copied one by one.
    ``as_kept`` gives a value as it returns from its bytes where that is another one, though values
    cannot change: a float of fewer digits. None stays None. None: values return as they are.
    ``declared`` is the Python type, or the Avro schema, that the values have; None: not known.
    ``as_value`` is the serde for values of the type, which keeps the order of their dicts, where
    this one sorts it, since equal keys have one form; None: this one.
    ``survives`` tells of a column whether all its values return as they are, as far as that is
    known without a look at each; None: what has bytes does. Others are written one by one, by
    ``encode_whole``, which refuses what does not return; None: by ``encode``.
    ``format`` names the one of streamlet's own formats that the bytes are in, such as ``int32``;
    empty: another one, of which nothing is known. ``name`` is for messages: anyone may choose it.
    ``encode_read`` writes a column of values as they were read, without a look at them; None: by
    ``encode_all``.
    ``for_topic`` gives the serde of a topic's keys or values (``"key"``, ``"value"``) where it
    differs by topic, as with a schema registry; None: it does not.
    ``many_forms``: a value may come as other bytes than ``encode`` gives, as JSON with spaces.
    ``decodes`` tells of a column whether each entry surely has a value, which is not made; None:
    only ``decode`` tells.

    ``encode_all`` and ``decode_all`` are the fast way for a whole column without None. They may
    raise anything: the column is then done again entry by entry, to find the one at fault.
    """

    name: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]
    exact: type | None = None
    immutable: bool = False
    accepts: frozenset[type] = frozenset()
    encode_all: Callable[[list[T]], list[bytes]] | None = None
    decode_all: Callable[[list[bytes]], list[T]] | None = None
    shortest: bytes | None = None
    window_bytes: int = 0
    fast_copy: Callable[[T], T] | None = None
    copy_all: Callable[[list[T | None]], list[T | None] | None] | None = None
    as_kept: Callable[[T], T] | None = None
    declared: Any = None
    as_value: Serde[T] | None = None
    survives: Callable[[list[T]], bool] | None = None
    encode_whole: Callable[[T], bytes] | None = None
    format: str = ""
    encode_read: Callable[[list[T]], list[bytes]] | None = None
    for_topic: Callable[[str, str], Serde[T]] | None = None
    many_forms: bool = False
    decodes: Callable[[list[bytes]], bool] | None = None

    def __repr__(self) -> str:
        return f"Serde({self.name})"

    def of_topic(self, topic: str, role: str) -> Serde[T]:
        """The serde of a topic's keys or values (``"key"``, ``"value"``)."""
        return self if self.for_topic is None else self.for_topic(topic, role)

    def unread(self) -> Serde[T]:
        """The serde for a reader who only asks which values are None: bytes may stand for others.

        What cannot be decoded is an error all the same.
        """
        decodes, decode_all = self.decodes, self.decode_all
        if decodes is None or decode_all is None:
            return self

        def checked(column: list[bytes]) -> list[Any]:
            return column if decodes(column) else decode_all(column)

        return attrs.evolve(self, decode_all=checked)

    def decode_column(self, column: list[bytes | None]) -> list[T | None]:
        """The values of a column of bytes; None stays None.

        The result may be the given list itself where bytes are the values: do not change it.

        Raises:
            ColumnError: an entry could not be decoded.
        """
        if self.decode_all is as_it_is:
            return column  # type: ignore[return-value]
        # all() is the cheapest question that rules out None; empty bytes make it answer no as well,
        # which costs the second look but not correctness.
        if all(column) or None not in column:
            return _whole(column, self.decode_all, self.decode, "decode", self.name)
        present = [raw for raw in column if raw is not None]
        return _with_gaps(column, present, self.decode_all, self.decode, "decode", self.name)

    def encode_column(self, column: list[T | None]) -> list[bytes | None]:
        """The bytes of a column of values; None stays None.

        Raises:
            ColumnError: an entry could not be encoded, or is of the wrong type.
        """
        # Types, not values, are asked: `None in column` would call a value's own __eq__.
        if (
            len(self.accepts) == 1
            and NoneType not in self.accepts
            and all_of(column, *self.accepts)
        ):
            return _whole(column, self.encode_all, self.encode, "encode", self.name)
        types = set(map(type, column))
        gaps = NoneType in types
        types.discard(NoneType)
        fast = None if self.accepts and not types <= self.accepts else self.encode_all
        if not gaps:
            return _whole(column, fast, self.encode, "encode", self.name)
        present = [value for value in column if value is not None]
        return _with_gaps(column, present, fast, self.encode, "encode", self.name)

    def encode_rows(self, column: list[T | None]) -> list[bytes | None]:
        """The bytes of a column that is kept, or of keys that go away: each can be read back.

        Raises:
            ColumnError: as ``encode_column``.
        """
        if self.survives is None or self.survives([one for one in column if one is not None]):
            return self.encode_column(column)
        encode = self.encode_whole or self.encode
        return attrs.evolve(self, encode=encode, encode_all=None).encode_column(column)

    def copy(self, value: T) -> T:
        """A value that shares nothing mutable with the given one.

        None where a serde of the user's has None as its bytes: a store deletes what is put so.

        Raises:
            SerdeError: the value cannot be encoded.
        """
        if self.as_kept is not None:
            return self.as_kept(value)
        if self.immutable:
            return value
        if self.fast_copy is not None:
            return self.fast_copy(value)
        raw: bytes | None = self.encode(value)
        return None if raw is None else self.decode(raw)  # type: ignore[return-value]


def as_it_is(column: Any) -> Any:
    """The column itself: ``encode_all`` and ``decode_all`` of a serde of bytes."""
    return column


def _whole(
    column: Any,
    fast: Callable[[Any], list[Any]] | None,
    one: Callable[[Any], Any],
    verb: str,
    name: str,
) -> list[Any]:
    """A column without None: all at once, and entry by entry where that did not work."""
    if fast is not None:
        try:
            out = fast(column)
        except _NOT_OF_ENTRY:
            raise
        except BaseException:  # the slow way below finds the entry and raises for it
            out = []
        if len(out) == len(column):
            return out
    out = []
    failure: BaseException | None = None
    try:
        out.extend(map(one, column))
    except _NOT_OF_ENTRY:
        raise
    except BaseException as error:  # a user's function may raise anything, or exit
        failure = error
    if failure is None and len(out) == len(column):
        return out
    # A StopIteration out of a user's function ends the map without a sound: a failure as well.
    failure = StopIteration() if failure is None else failure
    cause = _as_serde_error(failure, verb, name, column[len(out)])
    raise ColumnError(len(out), out, cause) from failure


def _with_gaps(
    column: list[Any],
    present: list[Any],
    fast: Callable[[Any], list[Any]] | None,
    one: Callable[[Any], Any],
    verb: str,
    name: str,
) -> list[Any]:
    """A column with None in it: the rest is done as one column, then spread out again."""
    try:
        results = iter(_whole(present, fast, one, verb, name) if present else ())
    except ColumnError as error:
        done = iter(error.done)
        index = _nth_present(column, error.index)
        spread = [None if entry is None else next(done) for entry in column[:index]]
        raise ColumnError(index, spread, error.cause) from error.cause
    return [None if entry is None else next(results) for entry in column]


def _nth_present(column: Iterable[Any], count: int) -> int:
    """The index of entry number ``count`` in the column that is not None."""
    places = (index for index, entry in enumerate(column) if entry is not None)
    return next(place for number, place in enumerate(places) if number == count)


def _as_serde_error(error: BaseException, verb: str, name: str, entry: Any) -> SerdeError:
    if issubclass(type(error), SerdeError):  # isinstance() would ask the user's for its class
        return cast(SerdeError, error)
    wrapped = (
        decode_error(name, entry, error) if verb == "decode" else encode_error(name, entry, error)
    )
    wrapped.__cause__ = error
    return wrapped


def decode_error(name: str, raw: Any, why: object) -> SerdeError:
    """The error for bytes that are not what the serde writes: its name and the first bytes."""
    if not isinstance(raw, bytes):
        return SerdeError(f"{name}: expected bytes, got {type(raw).__name__}")
    shown = repr(raw[:_SHOWN_BYTES])
    rest = f"… ({len(raw)} bytes)" if len(raw) > _SHOWN_BYTES else ""
    return SerdeError(f"{name}: cannot decode {shown}{rest}: {_reason(why)}{frame_hint(name, raw)}")


def encode_error(name: str, value: object, why: object) -> SerdeError:
    """The error for a value of the right type that has no bytes."""
    reason = _reason(why)
    hint = "; call its .item()" if "objects of type numpy." in reason else ""
    if isinstance(why, struct.error) and isinstance(value, int):
        reason = "it needs more bytes"  # Python's own words differ by version
        hint = "; json() writes whole numbers of any size"
    return SerdeError(f"{name}: cannot encode {shown(value)}: {reason}{hint}")


def wrong_type(name: str, accepts: Iterable[type], value: object) -> SerdeError:
    """The error for a value of a type that the serde does not take."""
    expected = " or ".join(sorted(kind.__name__ for kind in accepts))
    got = f"{type(value).__name__} {shown(value)}"
    hint = plain_hint(value) or base_hint(value, accepts)
    return SerdeError(f"{name}: expected {expected}, got {got}{hint}")


def named(what: str, error: BaseException | None) -> BaseException | None:
    """The error with what gave the value in front, if a serde refused that; else unchanged."""
    if not issubclass(type(error), SerdeError):  # others may raise what they like when asked
        return error
    assert error is not None
    return SerdeError(f"{what}: {error}").with_traceback(error.__traceback__)


def _reason(why: object) -> str:
    if isinstance(why, BaseException):
        text = text_of(why)
        if isinstance(why, struct.error):  # whose class is called error
            return text
        return f"{type(why).__name__}: {text}" if text else type(why).__name__
    return str(why)


def alike(one: Serde[Any], other: Serde[Any]) -> bool:
    """True for serdes of one type and format, which may be two objects.

    Names do not tell: two classes may have one, and two pairs of lambdas do.
    """
    facts, pairs = zip(*map(_facts_of, (one, other)), strict=True)
    return one is other or (facts[0] == facts[1] and pairs[0] == pairs[1])


def _facts_of(serde: Serde[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The name, format and type of a serde, and the functions of one that its user made."""
    of_user = serde.format == CUSTOM or not hasattr(serde.encode, "__wrapped__")
    functions = (unwrap(serde.encode), unwrap(serde.decode)) if of_user else ()
    return (serde.name, serde.format, serde.declared), functions


def build(
    name: str,
    encode: Callable[[T], bytes],
    decode: Callable[[bytes], T],
    *,
    accepts: frozenset[type] = frozenset(),
    exact: type | None = None,
    immutable: bool = False,
    encode_all: Callable[[list[T]], list[bytes]] | None = None,
    decode_all: Callable[[list[bytes]], list[T]] | None = None,
    shortest: bytes | None = None,
    window_bytes: int = 0,
    declared: Any = None,
    format: str = "",
    many_forms: bool = False,
) -> Serde[T]:
    """A serde out of bare functions: failures get its name, types are checked."""

    def encode_one(value: T) -> bytes:
        if accepts and type(value) not in accepts:
            raise wrong_type(name, accepts, value)
        try:
            return encode(value)
        except (SerdeError, *_NOT_OF_ENTRY):
            raise
        except BaseException as error:
            raise encode_error(name, value, error) from error

    def decode_one(raw: bytes) -> T:
        try:
            return decode(raw)
        except (SerdeError, *_NOT_OF_ENTRY):
            raise
        except BaseException as error:
            raise decode_error(name, raw, error) from error

    encode_one.__wrapped__ = encode  # type: ignore[attr-defined]
    decode_one.__wrapped__ = decode  # type: ignore[attr-defined]
    return Serde(
        name=name,
        encode=encode_one,
        decode=decode_one,
        exact=exact,
        immutable=immutable,
        accepts=accepts,
        encode_all=encode_all or (lambda column: list(map(encode, column))),
        decode_all=decode_all or (lambda column: list(map(decode, column))),
        shortest=shortest,
        window_bytes=window_bytes,
        declared=declared,
        format=format,
        many_forms=many_forms,
    )


def build_rows(
    name: str,
    encode_all: Callable[[list[T]], list[bytes]],
    decode: Callable[[bytes], T],
    *accepts: type,
) -> Serde[T]:
    """A serde of the rows of a store, which are encoded by the column."""

    def encode(row: T) -> bytes:
        (raw,) = encode_all([row])
        return raw

    return build(name, encode, decode, accepts=frozenset(accepts), encode_all=encode_all)
