"""``streamlet topics write``: records from a file or from standard input to a topic."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from streamlet.counted import counted
from streamlet.errors import ConfigError, DeliveryError
from streamlet.kafka.placements import DEFAULT, partitioner_name
from streamlet.tools.command import Common, command
from streamlet.tools.topics import KEY_TYPES, TopicArgument, ValueType, known_topic

if TYPE_CHECKING:
    from streamlet.records.lines import BadLine, InputRecord, LineReader
    from streamlet.records.writer import TopicWriter

#: Records of a file that are given to the producer at once; those of a pipe go one by one.
_BATCH = 500
#: Bad lines that a message names.
_NAMED = 10
_STDIN = Path("-")


@command("topics write")
def write(
    common: Common,
    topic: TopicArgument,
    file: Annotated[
        Path, typer.Argument(metavar="[FILE]", help="What to read; - is standard input.")
    ] = _STDIN,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            envvar="STREAMLET_TOPICS_WRITE_FORMAT",
            metavar="FORMAT",
            help="What a line is: lines (a value each, no key), key-value (key:value), json (an "
            "object with value, and perhaps key, timestamp and headers), or csv.",
        ),
    ] = "lines",
    key: Annotated[
        str | None, typer.Option(metavar="T", help=KEY_TYPES, show_default="str")
    ] = None,
    value: ValueType = "str",
    partitioner: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="What puts keys into partitions; consistent_random as librdkafka."
        ),
    ] = DEFAULT,
) -> None:
    """Write the lines of a file, or of standard input, to a topic and say how many were delivered.

    A file is checked first: where a line is no record, none is written. Standard input is written
    as it comes, up to the first line that is no record.

    The first line of CSV names the columns: value, and perhaps key and timestamp; with --value json
    all columns but key and timestamp are one object of texts. What topics read --json prints,
    --format json writes again, wherever it was read. The key decides on the partition as in Java's
    client, or by --partitioner as in others.
    """
    try:
        placed = partitioner_name(partitioner)
    except ValueError as error:
        raise ConfigError([f"--partitioner: {error}"]) from error
    reader = line_reader(format_, key, value)
    if file != _STDIN:
        common.output.status(f"checking {file}")
        _check(reader, file)
    elif sys.stdin.isatty():
        common.output.note("reading lines from the keyboard; Ctrl-D ends")
    with closing(_opened(file)) as lines:
        count = _write(common, topic, reader, lines, file, placed)
    common.output.answer(
        {"topic": topic, "records": count}, f"wrote {counted(count, 'record')} to {topic}"
    )


def line_reader(format_: str, key: str | None, value: str) -> LineReader:
    """The reader for lines of this format; ``key`` is None where the default will do.

    Raises:
        ConfigError: there is no such format or type, or lines of this format have no key.
    """
    from streamlet.records.lines import Format, LineReader
    from streamlet.records.types import DataType

    if format_ not in list(Format):
        raise ConfigError([f"--format {format_}: expected {', '.join(Format)}"])
    if key is not None and format_ == Format.LINES:
        problem = "--key: a line is a value without a key; --format key-value has key:value"
        raise ConfigError([problem])
    types = DataType.of(key or "str", "--key"), DataType.of(value, "--value")
    return LineReader(Format(format_), *types)


def _write(
    common: Common, topic: str, reader: LineReader, lines: TextIO, file: Path, partitioner: str
) -> int:
    """Write the records of these lines; how many."""
    from streamlet.clock import SystemClock
    from streamlet.kafka.client import KafkaSink
    from streamlet.kafka.limits import TopicLimits
    from streamlet.records.writer import DELIVERY_MS, TopicWriter

    admin = common.admin()
    known_topic(admin, topic, "WRITE")
    config = {**common.client_config("producer"), "partitioner": partitioner}
    sink = KafkaSink(
        common.bootstrap_servers,
        config,
        delivery_timeout_ms=DELIVERY_MS,
        limits=TopicLimits.of(admin.topic_settings([topic]), config),
        name="streamlet-topics",
    )
    with closing(sink):
        writer = TopicWriter(sink, topic, SystemClock(), _name(file))
        records = _good(reader, lines, file)
        try:
            while batch := list(islice(records, 1 if file == _STDIN else _BATCH)):
                writer.send(batch)
                if file != _STDIN:
                    common.output.status(f"{counted(writer.sent, 'record')} sent to {topic}")
        except BaseException as error:
            _stopped(common, writer, error)
            raise
        return writer.deliver()


def _stopped(common: Common, writer: TopicWriter, error: BaseException) -> None:
    """Say what became of the records before the one that ended the command."""
    try:
        delivered = writer.deliver()
    except DeliveryError as undelivered:
        if str(error) not in str(undelivered):
            common.output.note(str(undelivered))
    else:
        before = counted(delivered, "record before that was", "records before that were")
        common.output.note(f"{before} written to {writer.topic}")


def _good(reader: LineReader, lines: TextIO, file: Path) -> Iterator[InputRecord]:
    from streamlet.records.lines import BadLine

    for found in _parsed(reader, lines, file):
        if isinstance(found, BadLine):
            raise ConfigError([f"{_name(file)}, line {found.line}: {found.reason}"])
        yield found


def _check(reader: LineReader, file: Path) -> None:
    """Read a file to its end without writing anything.

    Raises:
        ConfigError: it cannot be read, or has lines that are no records.
    """
    from streamlet.records.lines import BadLine

    if not file.is_file():
        there = file.exists()
        why = "it is no file; pipe it to standard input" if there else "there is no such file"
        raise ConfigError([f"{file}: {why}"])
    with closing(_opened(file)) as lines:
        found = _parsed(reader, lines, file)
        bad = list(islice((one for one in found if isinstance(one, BadLine)), _NAMED + 1))
    if bad:
        problems = [f"{file}, line {one.line}: {one.reason}" for one in bad[:_NAMED]]
        more = ["there are more"] * (len(bad) > _NAMED)
        raise ConfigError([*problems, *more, "nothing was written"])


def _parsed(reader: LineReader, lines: TextIO, file: Path) -> Iterator[InputRecord | BadLine]:
    from streamlet.records.lines import MOST_LINE

    # In pieces, else a line without an end would fill the memory before it is refused.
    pieces = iter(partial(lines.readline, MOST_LINE + 1), "")
    try:
        yield from reader.records(pieces)
    except ConfigError as error:
        problems = [f"{_name(file)}, {problem}" for problem in error.problems]
        raise ConfigError([*problems, "nothing was written"]) from error


def _opened(file: Path) -> TextIO:
    """The lines of the input; bytes that are no UTF-8 are kept for the serde to refuse."""
    try:
        source: int | Path = sys.stdin.fileno() if file == _STDIN else file
        return open(
            source, encoding="utf-8", errors="surrogateescape", newline="\n", closefd=file != _STDIN
        )
    except OSError as error:
        raise ConfigError([f"{file}: {error.strerror}"]) from error


def _name(file: Path) -> str:
    return "standard input" if file == _STDIN else str(file)
