"""Lines of text as records, and lines that are none."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from streamlet.errors import ConfigError
from streamlet.records.lines import BadLine, Format, InputRecord, LineReader
from streamlet.records.types import DataType
from streamlet.tools import topics_write

Found = list[InputRecord | BadLine]


def read(format: Format, text: str, key: str = "str", value: str = "str") -> Found:
    types = DataType.of(key, "--key"), DataType.of(value, "--value")
    return list(LineReader(format, *types).records(text.splitlines(keepends=True)))


def number(value: int) -> bytes:
    return value.to_bytes(8, signed=True)


def test_each_line_is_a_value_also_an_empty_one() -> None:
    assert read(Format.LINES, "a b\n\nlast\r\n") == [
        InputRecord(1, None, b"a b"),
        InputRecord(2, None, b""),
        InputRecord(3, None, b"last"),
    ]


def test_a_key_ends_at_the_first_colon() -> None:
    assert read(Format.KEY_VALUE, "a:1\n\nb:c:d\n:\n") == [
        InputRecord(1, b"a", b"1"),
        InputRecord(3, b"b", b"c:d"),
        InputRecord(4, b"", b""),
    ]


def test_a_json_line_has_what_reading_shows() -> None:
    text = (
        '\ufeff{"topic": "t", "partition": 3, "offset": 9, "timestamp": 5, "key": 1, "value": "a", '
        '"headers": [["h", "x"], ["n", null]]}\n'
        '\n{"value": "b"}\n{"key": 2, "value": null}\n'
    )
    assert read(Format.JSON, text, key="int") == [
        InputRecord(1, number(1), b"a", 5, [("h", b"x"), ("n", None)]),
        InputRecord(3, None, b"b"),
        InputRecord(4, number(2), None),
    ]


def test_csv_has_columns_for_key_value_and_time() -> None:
    text = '\ufeffkey,value,timestamp\na,"1, or\nmore",7\n\nb,2,\n'  # as Windows writes it
    assert read(Format.CSV, text) == [
        InputRecord(3, b"a", b"1, or\nmore", 7),
        InputRecord(5, b"b", b"2"),
    ]


def test_csv_without_a_value_is_an_object_of_its_columns() -> None:
    text = "key,name,age\n1,Ann,7\n"
    assert read(Format.CSV, text, key="int", value="json") == [
        InputRecord(2, number(1), b'{"name":"Ann","age":"7"}')
    ]


def test_an_empty_file_has_no_records() -> None:
    assert [read(format, "") for format in Format] == [[], [], [], []]


@pytest.mark.parametrize(
    ("format", "line", "reason"),
    [
        (Format.KEY_VALUE, "no colon", "expected key:value, got 'no colon'"),
        (Format.KEY_VALUE, "a:x", "value: int: expected a whole number, got 'x'"),
        (Format.JSON, "[1]", 'expected a JSON object with "value", and perhaps "key"'),
        (Format.JSON, '{"key": "a"}', 'expected a JSON object with "value", and perhaps "key"'),
        (Format.JSON, '{"value": 1, "vlaue": 2}', "unknown fields 'vlaue'"),
        (Format.JSON, '{"value": "1"}', "value: int: expected int, got str '1'"),
        (Format.JSON, '{"key": 1, "value": 1}', "key: str: expected str, got int 1"),
        (
            Format.JSON,
            '{"value": 1, "timestamp": 9223372036854775808}',
            "timestamp: expected milliseconds since the epoch, got 9223372036854775808",
        ),
        (
            Format.JSON,
            '{"value": 1, "timestamp": -1}',
            "timestamp: expected milliseconds since the epoch, got -1",
        ),
        *(
            (
                Format.JSON,
                f'{{"value": 1, "headers": {headers}}}',
                'headers: expected [["name","text"], …]',
            )
            for headers in ('{"a": "b"}', '{"ab": "c"}', '["ab"]', '[[1, "a"]]', '[["a", 1]]')
        ),
        (
            Format.JSON,
            '{"value": "AA==", "error": "value: int: …"}',
            "it could not be decoded when it was read: value: int: …",
        ),
    ],
)
def test_a_line_that_is_no_record_is_named_and_those_around_it_are_read(
    format: Format, line: str, reason: str
) -> None:
    good = "a:1" if format is Format.KEY_VALUE else '{"key": "a", "value": 1}'
    found = read(format, f"{good}\n{line}\n{good}\n", value="int")
    assert found == [
        InputRecord(1, b"a", number(1)),
        BadLine(2, reason),
        InputRecord(3, b"a", number(1)),
    ]


def test_json_that_is_none_is_a_bad_line() -> None:
    (bad,) = read(Format.JSON, "{oops\n")
    assert isinstance(bad, BadLine)
    assert "json: cannot decode b'{oops'" in bad.reason


def test_csv_rows_of_other_lengths_and_broken_quotes_are_bad_lines() -> None:
    found = read(Format.CSV, 'key,value\na\nb,2\nc,"3"x\n')
    assert found[:2] == [
        BadLine(2, "expected 2 cells as in line 1, got 1"),
        InputRecord(3, b"b", b"2"),
    ]
    assert isinstance(found[2], BadLine)
    assert found[2].line == 4


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("a,1", "line 1: it must name a column value, and perhaps key and timestamp"),
        (
            "value,other",
            r"line 1: beside the column value there may be key and timestamp: \['other",
        ),
        ('"value"x', "line 1: ',' expected after '\"'"),
        ("value,value", "line 1: it must name each column once: value,value"),
        ("value,", "line 1: it must name each column once"),
    ],
)
def test_csv_needs_names_in_its_first_line(head: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(Format.CSV, f"{head}\nb,2\n")


def test_a_line_without_an_end_is_refused_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of ``topics write lines < /dev/zero``: nothing reads to its end, which never comes."""
    monkeypatch.setattr("streamlet.records.lines.MOST_LINE", 10)

    class Endless(io.StringIO):
        def readline(self, size: int | None = -1, /) -> str:
            assert size is not None
            assert size > 0
            return "\0" * size

    reader = LineReader(Format.LINES, DataType.of("str", ""), DataType.of("str", ""))
    found = next(topics_write._parsed(reader, Endless(), Path("-")))
    assert found == BadLine(1, "it has more than 10 characters")
    assert read(Format.LINES, "0123456789") == [InputRecord(1, None, b"0123456789")]
