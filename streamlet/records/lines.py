"""Lines of text as records: one value per line, key:value, JSON documents, CSV.

A line that is no record is yielded as a ``BadLine``, so that all of them can be named at once.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs

from streamlet.bounded import INT64_MAX
from streamlet.errors import ConfigError, SerdeError
from streamlet.kafka.ports import Headers
from streamlet.records.types import DataType, of_values
from streamlet.serdes import json
from streamlet.user_code import listed, shown


class Format(StrEnum):
    """The format of input lines."""

    LINES = "lines"
    KEY_VALUE = "key-value"
    JSON = "json"
    CSV = "csv"


@attrs.frozen
class InputRecord:
    """A record to write, encoded, and the number of its line. Without a time it is now."""

    line: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: Headers | None = None


@attrs.frozen
class BadLine:
    """A line that is no record, and the reason."""

    line: int
    reason: str


#: Characters of a line: more than a broker takes as a record, and few enough for the memory.
MOST_LINE = 64 << 20

Parsed = Iterator[InputRecord | BadLine]

_DOCUMENT = json()
#: Fields of a JSON document that say where a record was read, not what it is.
_WHERE = frozenset({"topic", "partition", "offset"})
_FIELDS = frozenset({"key", "value", "timestamp", "headers"})
#: Columns of a CSV file that are not part of the value.
_COLUMNS = ("key", "value", "timestamp")


@attrs.frozen
class LineReader:
    """Turns lines into records.

    Args:
        format: what a line is.
        key: the type of the keys.
        value: the type of the values.
    """

    format: Format
    key: DataType
    value: DataType = attrs.field(converter=of_values)

    def records(self, lines: Iterable[str]) -> Parsed:
        """The records of these lines, which end as they do in their file.

        Raises:
            ConfigError: the first line of a CSV file does not name the columns that are needed.
        """
        if self.format in (Format.CSV, Format.JSON):
            lines = _without_mark(lines)
        if self.format is Format.CSV:
            return self._csv_records(lines)
        parse = {
            Format.LINES: self._line,
            Format.KEY_VALUE: self._key_value,
            Format.JSON: self._json,
        }[self.format]
        return self._parsed(parse, lines)

    def _parsed(self, parse: Callable[[int, str], InputRecord], lines: Iterable[str]) -> Parsed:
        for number, line in enumerate(lines, 1):
            if len(line) > MOST_LINE:
                yield BadLine(number, f"it has more than {MOST_LINE:,} characters")
                continue
            text = line.removesuffix("\n").removesuffix("\r")
            if not text and self.format is not Format.LINES:
                continue
            try:
                yield parse(number, text)
            except SerdeError as error:
                yield BadLine(number, str(error))

    def _line(self, number: int, text: str) -> InputRecord:
        return InputRecord(number, None, _named("value", self.value.encode_text, text))

    def _key_value(self, number: int, text: str) -> InputRecord:
        key, colon, value = text.partition(":")
        if not colon:
            raise SerdeError(f"expected key:value, got {shown(text)}")
        raw = _named("key", self.key.encode_text, key)
        return InputRecord(number, raw, _named("value", self.value.encode_text, value))

    def _json(self, number: int, text: str) -> InputRecord:
        document = _DOCUMENT.decode(text.encode("utf-8", "surrogateescape"))
        if not isinstance(document, dict) or "value" not in document:
            raise SerdeError('expected a JSON object with "value", and perhaps "key"')
        if "error" in document:
            raise SerdeError(f"it could not be decoded when it was read: {document['error']}")
        unknown = sorted(document.keys() - _FIELDS - _WHERE)
        if unknown:
            raise SerdeError(f"unknown fields {listed(map(shown, unknown))}")
        return InputRecord(
            number,
            _named("key", self.key.encode_json, document.get("key")),
            _named("value", self.value.encode_json, document["value"]),
            _timestamp(document.get("timestamp")),
            _headers(document.get("headers")),
        )

    def _csv_records(self, lines: Iterable[str]) -> Parsed:
        rows = csv.reader(lines, strict=True)
        try:
            columns = next(rows, None)
        except csv.Error as error:
            raise ConfigError([f"line 1: {error}"]) from error
        if columns is None:
            return
        self._check_columns(columns)
        while True:
            try:
                cells = next(rows, None)
                if cells is None:
                    return
                if cells:
                    yield self._csv_record(rows.line_num, columns, cells)
            except (csv.Error, SerdeError) as error:
                yield BadLine(rows.line_num, str(error))

    def _check_columns(self, columns: Sequence[str]) -> None:
        if len(set(columns)) < len(columns) or not all(columns):
            raise ConfigError([f"line 1: it must name each column once: {','.join(columns)}"])
        if "value" in columns:
            strange = sorted(set(columns) - set(_COLUMNS))
            if strange:
                raise ConfigError(
                    [f"line 1: beside the column value there may be key and timestamp: {strange}"]
                )
        elif self.value.name not in ("json", "avro"):
            raise ConfigError(
                [
                    "line 1: it must name a column value, and perhaps key and timestamp; "
                    "with --value json all columns but those two are one object"
                ]
            )

    def _csv_record(self, number: int, columns: list[str], cells: list[str]) -> InputRecord:
        if len(cells) != len(columns):
            raise SerdeError(f"expected {len(columns)} cells as in line 1, got {len(cells)}")
        row: Mapping[str, str] = dict(zip(columns, cells, strict=True))
        if "value" in row:
            value = _named("value", self.value.encode_text, row["value"])
        else:
            rest = {name: cell for name, cell in row.items() if name not in _COLUMNS}
            value = _named("value", self.value.encode_json, rest)
        key = _named("key", self.key.encode_text, row["key"]) if "key" in row else None
        time = row.get("timestamp")
        return InputRecord(number, key, value, _timestamp(_number(time) if time else None))


def _without_mark(lines: Iterable[str]) -> Iterator[str]:
    """The lines without the mark that some programs, as those of Windows, put before UTF-8."""
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix("\ufeff")


def _named(role: str, encode: Callable[[Any], bytes | None], given: Any) -> bytes | None:
    try:
        return encode(given)
    except SerdeError as error:
        raise SerdeError(f"{role}: {error}") from error


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def _timestamp(given: Any) -> int | None:
    if given is None or (type(given) is int and 0 <= given <= INT64_MAX):
        return given
    raise SerdeError(f"timestamp: expected milliseconds since the epoch, got {shown(given)}")


def _headers(given: Any) -> Headers | None:
    """Names and texts of a JSON document as Kafka has them."""
    if not given:
        return None
    if not isinstance(given, list) or not all(map(_is_header, given)):
        raise SerdeError('headers: expected [["name","text"], …]')
    return [(name, None if text is None else text.encode()) for name, text in given]


def _is_header(pair: Any) -> bool:
    """True for a name and a text, or null, as JSON has them."""
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    return isinstance(pair[0], str) and isinstance(pair[1], str | None)
