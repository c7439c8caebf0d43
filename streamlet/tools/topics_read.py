"""``streamlet topics read``: the records of a topic, once or as they come."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from streamlet.records import TYPE_NAMES, WINDOWED_NAMES
from streamlet.tools.command import Common, command
from streamlet.tools.topics import TopicArgument, known_topic

if TYPE_CHECKING:
    from streamlet.kafka.ports import PartitionBatch
    from streamlet.records.reader import ReadFrom
    from streamlet.records.shown import RecordView
    from streamlet.records.types import DataType

#: What bytes that are no text are most likely, by their number.
_TYPES_OF_SIZE = {8: "int or float", 4: "int32 or float32", 2: "int16"}
_DEFAULT = "str, escaped"
ReadKey = Annotated[
    str | None,
    typer.Option(
        metavar="T",
        help=f"Type of the keys: {TYPE_NAMES}; in windows {WINDOWED_NAMES}.",
        show_default=_DEFAULT,
    ),
]
ReadValue = Annotated[
    str | None,
    typer.Option(metavar="T", help=f"Type of the values: {TYPE_NAMES}.", show_default=_DEFAULT),
]
WithoutRepeats = Annotated[
    bool,
    typer.Option("--without-repeats", help="Leave out what was written again, by its origin."),
]


@command("topics read")
def read(
    common: Common,
    topic: TopicArgument,
    key: ReadKey = None,
    value: ReadValue = None,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            envvar="STREAMLET_TOPICS_READ_FROM",
            metavar="WHERE",
            help="Where to begin: earliest, latest, an offset, or a time in UTC such as "
            "2026-01-31T12:00:00.",
        ),
    ] = "earliest",
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with new records until Ctrl-C.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="End after so many records.")
    ] = None,
    headers: Annotated[
        bool, typer.Option("--headers", help="Show the headers of each record as well.")
    ] = False,
    without_repeats: WithoutRepeats = False,
) -> None:
    """Print the records that a topic has now: key and value, a tab between them.

    Nothing is committed, and no group is joined. The order is kept within each partition. Keys and
    values whose type is not given are shown as text, with escapes for bytes that are none. One that
    is not of the type given is shown in base64, with the reason.

    Keys in windows are objects, {"key", "start"} in ms; those of sessions have an "end", too.

    With --json each record is a line {"topic", "partition", "offset", "timestamp", "key", "value",
    "headers"}, where bytes are in base64; one that cannot be decoded has an "error" as well.
    """
    from streamlet.origins import RepeatFilter
    from streamlet.records.reader import ReadFrom, new_records
    from streamlet.records.shown import as_json, as_line

    view = _view(key, value, common.output.as_json)
    hints = _TypeHints({"--key": view.key, "--value": view.value})
    where, printed = ReadFrom.of(from_), 0
    wants_headers = headers or without_repeats or common.output.as_json
    repeats = RepeatFilter() if without_repeats else None
    with closing(read_batches(common, topic, where, follow, wants_headers)) as batches:
        for batch in batches if repeats is None else new_records(batches, repeats):
            shown = batch if limit is None else batch.slice(0, limit - printed)
            documents = view.documents(shown)
            if common.output.as_json:
                common.output.lines([as_json(document) for document in documents])
            else:
                common.output.lines([as_line(document, headers) for document in documents])
            hints.show(common)
            printed += len(documents)
            if printed == limit:
                return
    if not printed and not follow:
        common.output.note(f"no record in {topic} from {where.where} on")


def _view(key: str | None, value: str | None, as_json: bool) -> RecordView:
    """The types by which records are shown; to people with escapes where none is given."""
    from streamlet.records.shown import RecordView
    from streamlet.records.types import DataType, EscapedText

    def type_of(given: str | None, option: str) -> DataType:
        if given is None:
            return DataType.of("str", option) if as_json else EscapedText()
        return DataType.of(given, option)

    return RecordView(type_of(key, "--key"), type_of(value, "--value"))


@attrs.define
class _TypeHints:
    """Notes for one who did not give the type of bytes that are no text; one for each option."""

    _types: dict[str, DataType]

    def show(self, common: Common) -> None:
        """Print the notes about what was shown since the last call."""
        for option, one in [*self._types.items()]:
            if escaped := getattr(one, "escaped", None):
                del self._types[option]
                common.output.note(self._hint(option, escaped[0]))

    def _hint(self, option: str, raw: bytes) -> str:
        kinds, types = f"{option.removeprefix('--')}s", _TYPES_OF_SIZE.get(len(raw), TYPE_NAMES)
        windows = f"; in windows {WINDOWED_NAMES}" if option == "--key" else ""
        return f"some {kinds} are no text: give their type by {option} ({types}{windows})"


def read_batches(
    common: Common, topic: str, where: ReadFrom, follow: bool, headers: bool
) -> Generator[PartitionBatch, None, None]:
    """The records of a topic from a position on: those there are, or all that come."""
    from streamlet.clock import SystemClock
    from streamlet.hosting.signals import GracefulStop
    from streamlet.kafka.client import KafkaSource
    from streamlet.records.reader import TopicReader
    from streamlet.types import TopicPartition

    admin = common.admin()
    count = known_topic(admin, topic)
    ends = admin.end_offsets([TopicPartition(topic, number) for number in range(count)])
    positions = where.positions(admin, ends)
    source = KafkaSource(
        common.bootstrap_servers,
        common.client_config("consumer"),
        headers=headers,
        name="streamlet-topics",
    )
    reader = TopicReader(source, admin, SystemClock())
    with closing(source):
        if not follow:
            yield from reader.until(ends, positions)
            return
        with GracefulStop() as stop:
            yield from reader.following(positions, stop.asked.is_set)
