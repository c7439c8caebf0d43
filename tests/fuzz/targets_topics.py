"""Records of the application's own topics."""

from __future__ import annotations

import json

from streamlet.control.records import ControlRecordError, decode, encode_key, encode_value, place_of
from streamlet.control.values import (
    ChangelogTypes,
    Command,
    Description,
    Endpoint,
    Mark,
    MemberProgress,
    PauseMark,
    ResetEpoch,
    Shutdown,
    StoreServer,
    TaskProgress,
)
from streamlet.control.view import ControlView
from streamlet.coordinator.commit_metadata import (
    CommitMetadata,
    InputNote,
)
from streamlet.dsl.foreign_keys import wire, wire_columns
from streamlet.errors import (
    StateError,
)
from streamlet.kafka.ports import NewTopic, PartitionBatch
from streamlet.letters.handled import Handled
from streamlet.letters.letter import LetterFilter, letters
from streamlet.origins import ORIGIN_HEADER, Origin, RepeatFilter
from streamlet.processing.edges import held_columns, held_records
from streamlet.processing.edges.filter import EdgeFilter
from streamlet.processing.edges.held_reader import HeldReader
from streamlet.processing.edges.records import pack
from streamlet.processing.edges.writer_keys import WriterKey, WriterKeys
from streamlet.state.changelog import ChangelogReader, encode_column
from streamlet.state.changelog import decode as decode_record
from streamlet.state.entries import ENTRY_HEADER, CommitEntry
from streamlet.state.holding_reader import HoldingReader
from streamlet.types import StateNumber
from tests.fuzz.target import DEEP, EDGE, INPUT, PREFIXED, SEAM, Target, batch_of


def _control(raw: bytes) -> None:
    key, _, value = raw.partition(SEAM)
    view = ControlView().apply(key, value).apply(key, value)
    if view.description is not None:
        json.dumps(view.description.topology)
        [part.names for part in view.description.parts]
    decode(key, value)


_ENTRIES = (
    Mark("p", 1_766_000_000_000, successors=("q",)),
    MemberProgress(
        *("p", 0, "one-0", "m", 5, "RUNNING", 1),
        tasks=(TaskProgress("0_0", "active", "running", 5, 5, 7, 1.5, 2.5),),
        busy=0.5,
        plans_by=(("a", "b"),),
        global_tables=(("t", 5),),
    ),
    Endpoint("p", 0, "one-0", "host", 8080),
    StoreServer("p", 0, "one-0", "host", 8081, "http"),
    Shutdown("p", "one-0", 1_766_000_000_000, "why"),
    Command("x", "scale-down on host-7", 5),
    ChangelogTypes("app-x-changelog", "x", ("str", "int"), "id"),
    ResetEpoch(3, 5, (NewTopic("app-x-repartition", 2, 1, (("cleanup.policy", "delete"),)),)),
    Description(
        "one-0",
        "0.1.0",
        {
            "subtopologies": [
                {"id": 0, "sources": [{"name": "in", "topics": ["t"]}], "stores": [{"name": "s"}]}
            ]
        },
        {"text": "Topologies:"},
    ),
    PauseMark("all", 1_766_000_000_000, "host-7"),
    PauseMark("3"),
)


#: A name that is a number in a compact entry.
_LONG = "c" * 2_000


def _entry(raw: bytes) -> None:
    entry = CommitEntry.of(StateNumber(2, 7), ((ENTRY_HEADER, raw),))
    if entry is not None:
        entry.named(["c", _LONG]).header(compact=True)


def _changelog(raw: bytes) -> None:
    """One record of two parts: its value, and the header of a tombstone."""
    value, seam, mark = raw.partition(SEAM)
    headers = [None, (("s", mark),), None] if seam else None
    values = [_ROW, None if seam else value, _ROW]
    keys: list[bytes | None] = [b"a", b"b", b"c"]
    if not seam:
        decode_record(value, None)
    readers = (
        ChangelogReader("c", None),
        ChangelogReader("c", StateNumber(3, 1), claimed=4),
        HoldingReader("c"),
    )
    for reader in readers:
        reader.read(PartitionBatch("c", 0, range(3), keys, values, [0] * 3, headers))
        encode_column(StateNumber(reader.highest + 1, 1), [b"row"])


_ROW = encode_column(StateNumber(3, 1), [bytes(8) + b"v"])[0][0]
_MARKED = encode_column(StateNumber(3, 1), [None])[1]
assert _ROW is not None
assert _MARKED is not None
assert _MARKED[0] is not None


def _prefixes(raw: bytes) -> None:
    """Forged records between honest ones; then the note of a commit."""
    one = EdgeFilter(InputNote(), buffered=len(raw) % 2 == 0)
    one.take(batch_of(PREFIXED[:1]))
    one.take(batch_of([part for part in raw.split(SEAM)]))
    one.take(batch_of(PREFIXED))
    one.advance(10)
    CommitMetadata(1, "a", 1, note=one.note).to_text()


_HEAD = held_records.pack_head(0, 1 << 32 | 1, 1)
_WAITING = held_columns.pack(_HEAD, [b"a", None], 1)
_MARKER = held_records.pack_marker(
    held_records.pack_head(0, 1 << 32 | 1, 2, held_records.MARKER), 3, (0, 0)
)


def _waiting(raw: bytes) -> None:
    """Forged records and markers between honest ones; then the note of a commit."""
    keys, ordered = WriterKeys(), len(raw) % 2 == 0
    keys.answer({0: WriterKey(1, b"" if len(raw) % 3 else b"another"), 1: WriterKey()}, 0)
    facts = InputNote(), 0, EdgeFilter(InputNote()), keys, frozenset({0})
    one = HeldReader(*facts, ordered=ordered)
    place, values = 0, [_MARKER, *_WAITING, *raw.split(SEAM), _MARKER]
    for at in range(0, len(values), 3):
        part = batch_of(values[at : at + 3])
        part.offsets = range(at, at + len(part))
        _, place = one.take(part, 0)
    assert one.position(place) <= len(values)
    text = CommitMetadata(1, "a", 1, note=one.note).to_text()
    assert CommitMetadata.from_text(text) is not None


def _origin(raw: bytes) -> None:
    Origin.from_headers([(ORIGIN_HEADER, raw)])
    one = RepeatFilter()
    for at, part in enumerate(raw.split(SEAM)):
        one.takes("out", 0, at, [(ORIGIN_HEADER, part)])
    RepeatFilter(json.loads(json.dumps(one.seen())))


def _foreign(raw: bytes) -> None:
    for read in (wire.answered, wire.copied, lambda raw: wire_columns.kept([raw], [b"name"])):
        try:
            read(raw)
        except ValueError:
            continue
    wire_columns.answered([raw])
    wire_columns.partitions_of([raw])


def _letter_position(raw: bytes) -> None:
    """The text beside a position, and what the next replay would write."""
    found = Handled.of(5, raw.decode(errors="replace"))
    known = range(4, 12)
    [(found.has(offset), found.began(offset)) for offset in known]
    after = found.with_done(known, [4, 6]).beginning(known, [7], found.ends)
    assert Handled.of(after.low, after.text) == after


def _letter(raw: bytes) -> None:
    """Headers: names and values in turn."""
    parts = raw.split(SEAM)
    names = [part.decode(errors="replace") for part in parts[::2]]
    batch = batch_of([b"v"])
    batch.headers = [[*zip(names, parts[1::2], strict=False)]]
    for letter in letters(batch):
        LetterFilter({"error": "ValueError"}, 0, 0, 5, 7).takes(letter)
        assert letter.replayed_headers[-1][1] == letter.mark
        assert letter.source is None or len(letter.source.topic) < 250


TOPICS = (
    Target(
        "control topic",
        _control,
        (ControlRecordError,),
        tuple(encode_key(place_of(one)) + SEAM + encode_value(one) for one in _ENTRIES),
        (
            b'{"kind":"mark","instance":"\xff"}' + SEAM + b"{}",
            b'{"kind":"shutdown"}' + SEAM + b'{"instance":"\xff","name":"x","at_ms":1}',
            b'{"kind":"zzz","x":' + DEEP + b"]" * len(DEEP) + b"}" + SEAM + b"{}",
            b"caf\xe9" + SEAM + b"x",
            b'"\x80"' + SEAM + b"x",
        ),
    ),
    Target(
        "commit entry",
        _entry,
        (),
        (
            CommitEntry(StateNumber(2, 7), {INPUT: 70}, {"c": 7}, {"c": 3}, "app").header()[1],
            CommitEntry(StateNumber(2, 7), {INPUT: 70}, {_LONG: 7}).header(compact=True)[1],
            b'{"in":{"t":{"0":1}},"log":{"c":1}}',
        ),
        (
            b'{"in":' + DEEP,
            b'{"in":{"t":{"0":1e400}},"log":{}}',
            b'{"in":{"t":{"0":NaN}},"log":{}}',
        ),
    ),
    Target(
        "changelog record",
        _changelog,
        (ValueError, StateError),
        (_ROW, SEAM + (_MARKED[0][0][1] or b"")),
        (
            encode_column(StateNumber(1 << 62, 1), [bytes(8)])[0][0] or b"",
            encode_column(StateNumber((1 << 70) - 1, 1), [bytes(8)])[0][0] or b"",
            b"\xff" * 20,
        ),
    ),
    Target(
        "repartition prefix",
        _prefixes,
        (),
        (SEAM.join(one or b"" for one in PREFIXED), (PREFIXED[0] or b"")),
        tuple(pack([b"x"], [EDGE], [origin], [0])[0] for origin in ((1 << 64) - 2, 1 << 63)),
    ),
    Target(
        "repartition prefix of records that wait",
        _waiting,
        (),
        (SEAM.join(_WAITING), _MARKER * 2, SEAM.join([_MARKER, *_WAITING])),
        tuple(
            held_records.pack_marker(held_records.pack_head(writer, period, number, 2), 1, base)
            for writer, period, number, base in (
                (9 << 32, 1 << 32 | 1, 1, (0, 0)),
                (0, (1 << 64) - 1, 1, ((1 << 64) - 1, (1 << 64) - 1)),
                (0, 1 << 32 | 2, (1 << 40) - 1, (1 << 32 | 1, 1 << 62)),
            )
        ),
    ),
    Target(
        "origin",
        _origin,
        (),
        (b"in/3/9a0c12f4/0/1042/0/1041.0", SEAM.join((b"in/3/9a/0/1/0/-", b"in/3/9a/9/2/1/1.0"))),
        (b"in/0/s/0/" + b"9" * 5000 + b"/0/-",),
    ),
    Target(
        "positions of dead letters",
        _letter_position,
        (ValueError,),
        (
            b"",
            b'{"done":[[6,7],[9,11]],"doing":[[7,8]],"ends":[["t",0,5],["u",3,0]]}',
        ),
        (b'{"done":[[1,2' + b"0" * 5_000 + b']],"doing":[],"ends":[]}', b'{"done":' + DEEP),
    ),
    Target(
        "dead letter",
        _letter,
        (),
        (
            SEAM.join(
                part
                for name, said in (
                    ("topic", b"t"),
                    ("partition", b"0"),
                    ("offset", b"7"),
                    ("error", b"ValueError"),
                    ("message", b"why"),
                )
                for part in (f"streamlet.{name}".encode(), said)
            ),
        ),
        (
            SEAM.join((b"streamlet.topic", b"t" * 1_000)),
            SEAM.join((b"streamlet.topic", b"t", b"streamlet.partition", b"9" * 5_000)),
        ),
    ),
    Target(
        "foreign-key message",
        _foreign,
        (),
        (
            wire.subscription(2, bytes(16), b"key", bytes(4)),
            wire.answer(bytes(4), wire.source_of(0, 1), bytes(16), b"value"),
            wire.copy_of(bytes(4), b"value"),
        ),
        (b"", b"\x01", b"\x81\x02\x03"),
    ),
)
