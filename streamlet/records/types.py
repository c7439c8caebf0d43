"""The types of keys and values that a command line names, as ``int`` or ``avro:flight.avsc``."""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from typing import Any

import attrs

from streamlet.bounded import is_deeper
from streamlet.errors import ConfigError, SerdeError
from streamlet.records import TYPE_NAMES
from streamlet.serdes import (
    Serde,
    Windowed,
    avro,
    float32,
    int16,
    int32,
    json,
    serde,
    session_windowed,
    time_windowed,
)
from streamlet.user_code import shown

_WHOLE_NUMBERS = {"int": serde(int), "int32": int32(), "int16": int16()}
_NUMBERS = {"float": serde(float), "float32": float32()}
_PLAIN: dict[str, Serde[Any]] = {
    "str": serde(str),
    "bytes": serde(bytes),
    **_WHOLE_NUMBERS,
    **_NUMBERS,
}
#: Keys of windows by the first word of their names: their bytes, and the fields of their objects.
_WINDOWED: dict[str, tuple[Serde[Windowed[bytes]], tuple[str, ...]]] = {
    "windowed": (time_windowed(bytes), ("key", "start")),
    "session": (session_windowed(bytes), ("key", "start", "end")),
}
_WHOLE = re.compile(r"[+-]?[0-9]+")
#: Digits of a number in text: more than any type has, and fewer than Python reads.
_MOST_DIGITS = 40
#: Levels of a value that are printed; deeper ones would end the command.
_MOST_LEVELS = 100
_DOCUMENT = json()
#: Control characters but line ends and tabs, as Python writes them.
_ESCAPES = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}


@attrs.frozen
class DataType:
    """A type with its name and its serde; turns text and JSON values into a record's bytes."""

    name: str
    serde: Serde[Any]

    @classmethod
    def of(cls, name: str, option: str) -> DataType:
        """The type of this name.

        Raises:
            ConfigError: there is none, or its schema cannot be read; ``option`` is in the message.
        """
        kind, _, file = name.partition(":")
        if kind in _WINDOWED and file.partition(":")[0] not in _WINDOWED and file:
            outer, fields = _WINDOWED[kind]
            return WindowedType(kind, outer, cls.of(file, option), fields)
        try:
            if name in _PLAIN:
                return cls(name, _PLAIN[name])
            if name == "json":
                return cls(name, _DOCUMENT)
            if kind == "avro" and file:
                return cls("avro", avro(Path(file)))
        except SerdeError as error:
            raise ConfigError([f"{option} {name}: {error}"]) from error
        raise ConfigError([f"{option} {name}: expected {TYPE_NAMES}"])

    def encode_text(self, text: str) -> bytes | None:
        """The bytes of a value that is written as text; the JSON text ``null`` is a null.

        Bytes are those of the text, as they stand in the file.

        Raises:
            SerdeError: the text is not of this type.
        """
        if self.name == "bytes":
            return text.encode("utf-8", "surrogateescape")
        if self.name == "str":
            return self.serde.encode(text)
        if self.name in _WHOLE_NUMBERS:
            if not _WHOLE.fullmatch(text) or len(text) > _MOST_DIGITS:
                raise SerdeError(f"{self.name}: expected a whole number, got {shown(text)}")
            return self.serde.encode(int(text))
        if self.name in _NUMBERS:
            try:
                return self.serde.encode(float(text))
            except ValueError as error:
                raise SerdeError(f"{self.name}: expected a number, got {shown(text)}") from error
        value = _DOCUMENT.decode(text.encode("utf-8", "surrogateescape"))
        return None if value is None else self.serde.encode(value)

    def encode_json(self, value: Any) -> bytes | None:
        """The bytes of a value out of a JSON document, where bytes are text in base64.

        Raises:
            SerdeError: the value is not of this type.
        """
        if value is None:
            return None
        if self.name != "bytes":
            return self.serde.encode(value)
        if not isinstance(value, str):
            raise SerdeError(f"bytes: expected text in base64, got {type(value).__name__}")
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise SerdeError(f"bytes: not base64: {error}") from error

    def decode(self, raw: bytes | None) -> tuple[Any, str | None]:
        """A value as JSON takes it; and, where it cannot be decoded, base64 and the reason."""
        if raw is None:
            return None, None
        try:
            value = self.serde.decode(raw)
        except SerdeError as error:
            return base64_text(raw), str(error)
        if is_deeper(value, _MOST_LEVELS):
            return base64_text(raw), f"{self.name}: it nests too deeply to be shown"
        return (base64_text(value) if isinstance(value, bytes) else value), None


def of_values(given: DataType) -> DataType:
    """The same type for values, in which the fields of objects keep their order."""
    serde = given.serde.as_value
    return given if serde is None else attrs.evolve(given, serde=serde)


@attrs.frozen
class EscapedText(DataType):
    """Text for people, of bytes whose type was not given: what is no text is escaped."""

    name: str = "str"
    serde: Serde[Any] = attrs.field(factory=lambda: _PLAIN["str"])
    #: The first bytes that needed escapes; empty before.
    escaped: list[bytes] = attrs.field(factory=list, init=False)

    def decode(self, raw: bytes | None) -> tuple[Any, str | None]:
        """The text, with escapes for bytes that are none and for control characters."""
        if raw is None:
            return None, None
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return self._note(raw, raw.decode(errors="backslashreplace").translate(_ESCAPES)), None
        if text.isprintable():
            return text, None
        shown = text.translate(_ESCAPES)
        return (text if shown == text else self._note(raw, shown)), None

    def _note(self, raw: bytes, text: str) -> str:
        if not self.escaped:
            self.escaped.append(raw)
        return text


@attrs.frozen
class WindowedType(DataType):
    """Keys of windows as JSON objects: ``key``, which is of another type, and ``start``, in ms.

    Those of sessions have an ``end`` too; the bytes of others do not tell it.
    """

    inner: DataType
    fields: tuple[str, ...]

    def encode_text(self, text: str) -> bytes | None:
        """The bytes of a JSON object that is written as text."""
        return self.encode_json(_DOCUMENT.decode(text.encode("utf-8", "surrogateescape")))

    def encode_json(self, value: Any) -> bytes | None:
        """The bytes of a JSON object."""
        if value is None:
            return None
        if not isinstance(value, dict) or sorted(value) != sorted(self.fields):
            names = " and ".join(self.fields)
            raise SerdeError(f"{self.name}: expected an object with {names}, got {shown(value)}")
        key, times = self.inner.encode_json(value["key"]), [value[one] for one in self.fields[1:]]
        if not all(type(at) is int for at in times):
            raise SerdeError(f"{self.name}: expected times in ms, got {shown(value)}")
        return self.serde.encode(Windowed(key, times[0], times[-1]))

    def decode(self, raw: bytes | None) -> tuple[Any, str | None]:
        """An object; and, where it cannot be decoded, base64 and the reason."""
        if raw is None:
            return None, None
        try:
            found: Windowed[bytes] = self.serde.decode(raw)
        except SerdeError as error:
            return base64_text(raw), str(error)
        key, problem = self.inner.decode(found.key)
        times = {"start": found.start, "end": found.end}
        return {"key": key, **{one: times[one] for one in self.fields[1:]}}, problem


def base64_text(raw: bytes) -> str:
    """Bytes as JSON shows them."""
    return base64.b64encode(raw).decode("ascii")
