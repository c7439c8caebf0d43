"""The text beside each committed position: who committed, and what the commit contains.

Compact JSON, the same on all input partitions of a task (hand-over rule W1)::

    {"v":1,"epoch":3,"by":"<member id>","gen":7,"ends":{"app-counts-changelog":{"0":120}},
     "state":[3,9],"release":{"to":"<member id>"}}

``epoch`` fences (W5), ``state`` is what the committed positions contain (N1), ``ends`` is one
more than the last delivered changelog offset. With ``release`` it is a mark (W2); nothing else is.
``rebuilt`` is there once a changelog does not hold all that was ever written to it: its owner had
records of expired windows deleted, it had lost records, or the task had to go on with other state
than that of its last commit:
``{"epoch":7,"whole":true,"from":{"app-counts-changelog":{"0":990}}}``.

``input`` is about the one partition whose position this is, everything else about the task::

    "input": {"inc": 1766000000, "applied": "<base 85>", "open": true}

``applied`` has an entry per edge: four bytes of its source, lowest first, then as varints its
incarnation, the offset of the highest origin plus one, and the rest of that origin. The lowest bit
of the rest says whether the next record must follow on it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from streamlet.coordinator.messages import Committed
from streamlet.errors import GroupError
from streamlet.types import NO_STATE, StateNumber, TopicPartition

#: Bits of an origin that are not its offset, the lowest of them for null values.
_REST_BITS = 20
_REST = (1 << _REST_BITS) - 1


@attrs.frozen
class InputNote:
    """The facts about one input partition that belong to a committed position.

    Attributes:
        incarnation: raised when the position was set back on purpose; 0 if never.
        applied: highest origin applied of each edge, its lowest bit set.
        loose: edges whose next record need not follow on that, because records were skipped.
        open: an edge that is not in ``applied`` may begin with any record.
    """

    incarnation: int = 0
    applied: Mapping[int, int] = attrs.field(factory=dict)
    loose: frozenset[int] = frozenset()
    open: bool = False

    def skipped(self) -> InputNote:
        """The note where records were skipped: each edge goes on with whatever comes next."""
        return attrs.evolve(self, loose=frozenset(self.applied), open=True)

    def as_json(self) -> dict[str, Any] | None:
        """The form in commit metadata; None if there is nothing to note."""
        fields: dict[str, Any] = {}
        if self.incarnation:
            fields["inc"] = self.incarnation
        if self.applied:
            fields["applied"] = self._text()
        if self.open:
            fields["open"] = True
        return fields or None

    @classmethod
    def from_json(cls, fields: Any) -> InputNote:
        """Read that form.

        Raises:
            ValueError, TypeError, AttributeError: it is damaged.
        """
        applied, loose = _parsed(fields.get("applied", ""))
        return cls(int(fields.get("inc", 0)), applied, loose, bool(fields.get("open", False)))

    def _text(self) -> str:
        found = bytearray()
        for edge, origin in sorted(self.applied.items()):
            rest = (origin & _REST & ~1) | (edge not in self.loose)
            found += (edge >> 32).to_bytes(4, "little")
            for number in (edge & 0xFFFFFFFF, origin >> _REST_BITS, rest):
                _add_varint(found, number)
        return base64.b85encode(bytes(found)).decode()


def _parsed(text: str) -> tuple[dict[int, int], frozenset[int]]:
    data, at = base64.b85decode(text), 0
    applied: dict[int, int] = {}
    loose = set()
    while at < len(data):
        source = int.from_bytes(data[at : at + 4], "little")
        numbers = []
        at += 4
        for _ in range(3):
            number, at = _varint(data, at)
            numbers.append(number)
        incarnation, offset, rest = numbers
        edge = source << 32 | incarnation
        applied[edge] = offset << _REST_BITS | rest | 1
        if not rest & 1:
            loose.add(edge)
    return applied, frozenset(loose)


def _add_varint(found: bytearray, number: int) -> None:
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("an entry of applied origins is cut off")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


#: The broker's ``offset.metadata.max.bytes`` unless it was changed.
METADATA_MAX_BYTES = 4_096

VERSION = 1


class CommitMetadataError(GroupError):
    """Text beside a committed position that says it is ours and cannot be read, or is too long."""


@attrs.frozen
class Rebuilt:
    """The epoch before which local copies may stem from other records than the changelogs hold.

    With ``whole`` its first commit writes whole changelogs again that had lost records. The claim
    says so, because a crash amid that leaves a log that is long enough and lacks keys; a member
    without state that is exactly the commit compares the log with the commit's ends. ``starts``
    tells from which offset each changelog that may lack older ones holds the whole state. Epoch 0:
    no copy is affected, there are just ``starts``.
    """

    epoch: int = 0
    whole: bool = False
    starts: dict[TopicPartition, int] = attrs.field(factory=dict)


def started(rebuilt: Rebuilt | None, starts: Mapping[TopicPartition, int]) -> Rebuilt | None:
    """The note that these changelogs hold the whole state from these offsets on, added."""
    if not starts:
        return rebuilt
    known = rebuilt or Rebuilt()
    later = {tp: max(start, known.starts.get(tp, 0)) for tp, start in starts.items()}
    return attrs.evolve(known, starts={**known.starts, **later})


@attrs.frozen
class CommitMetadata:
    """The text of a commit about its task. ``release_to`` is the member id a marker is for."""

    epoch: int
    by: str
    generation: int
    ends: dict[TopicPartition, int] = attrs.field(factory=dict)
    state: StateNumber = NO_STATE
    release_to: str | None = None
    rebuilt: Rebuilt | None = None
    #: Of the one partition; the same commit has another one for another input.
    note: InputNote = attrs.field(factory=InputNote, eq=False)

    @property
    def rebuilding(self) -> bool:
        """True if an owner began to write changelogs again and has not committed that yet."""
        rebuilt = self.rebuilt
        return rebuilt is not None and rebuilt.whole and self.state.epoch < rebuilt.epoch

    @property
    def rebuilt_epoch(self) -> int | None:
        """The epoch before which local copies are outdated; None if there is none."""
        return None if self.rebuilt is None or self.rebuilding else self.rebuilt.epoch

    def is_mark_for(self, member_id: str, generation: int) -> bool:
        """Say whether this releases the task to ``member_id`` by the order of ``generation`` (M7).

        A mark of another generation answers another order and counts for nothing.
        """
        return self.release_to == member_id and self.generation == generation

    def to_text(self, max_bytes: int = METADATA_MAX_BYTES) -> str:
        """Write the text.

        Raises:
            CommitMetadataError: if it is longer than the broker takes.
        """
        record: dict[str, Any] = {
            "v": VERSION,
            "epoch": self.epoch,
            "by": self.by,
            "gen": self.generation,
            "ends": _by_topic(self.ends),
            "state": list(self.state),
        }
        if self.rebuilt is not None:
            starts = _by_topic(self.rebuilt.starts)
            rebuilt = {"epoch": self.rebuilt.epoch, "whole": self.rebuilt.whole, "from": starts}
            record["rebuilt"] = rebuilt
        if (note := self.note.as_json()) is not None:
            record["input"] = note
        if self.release_to is not None:
            record["release"] = {"to": self.release_to}
        text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
        size = len(text.encode())
        if size > max_bytes:
            raise CommitMetadataError(
                f"commit metadata takes {size} bytes for {len(self.ends)} changelog partitions, the"
                f" broker takes {max_bytes}; use fewer or shorter-named stores in one subtopology,"
                " or raise the broker's offset.metadata.max.bytes"
            )
        return text

    @classmethod
    def read(cls, text: str | None) -> CommitMetadata | None:
        """Like ``from_text``, but returns None for unreadable text."""
        try:
            return cls.from_text(text)
        except CommitMetadataError:
            return None

    @classmethod
    def from_text(cls, text: str | None) -> CommitMetadata | None:
        """Read the text beside a committed position; None where there is none of ours.

        Positions set by a tool have no text, or one of their own. librdkafka ends the text with a
        NUL, which is taken off.

        Raises:
            CommitMetadataError: if it is of a later version, or ours but damaged.
        """
        text = (text or "").rstrip("\0")
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            if text.startswith('{"v":'):
                raise CommitMetadataError(
                    f"commit metadata cannot be read: {text[:80]!r}"
                ) from error
            return None
        if not isinstance(record, dict) or "v" not in record:
            return None
        if record["v"] != VERSION:
            raise CommitMetadataError(
                f"commit metadata has version {record['v']!r}, this streamlet reads {VERSION}"
            )
        try:
            return _from_record(record)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CommitMetadataError(
                f"commit metadata does not fit together: {text[:80]!r}"
            ) from error


@attrs.frozen
class Positions:
    """Committed positions of a task's inputs, with what was committed beside them."""

    offsets: dict[TopicPartition, int]
    metadata: tuple[CommitMetadata | None, ...]

    @classmethod
    def of(
        cls, inputs: Iterable[TopicPartition], committed: Mapping[TopicPartition, Committed]
    ) -> Positions:
        """Take the task's inputs out of a fetch; text that cannot be read says nothing."""
        inputs = tuple(inputs)
        offsets = {partition: committed[partition].offset for partition in inputs}
        texts = (committed[partition].metadata for partition in inputs)
        return cls(offsets, tuple(map(CommitMetadata.read, texts)))

    @property
    def notes(self) -> dict[TopicPartition, InputNote]:
        """The notes of the commit, by input."""
        texts = zip(self.offsets, self.metadata, strict=True)
        return {tp: one.note for tp, one in texts if one is not None}

    @property
    def newest(self) -> CommitMetadata | None:
        """The text of the newest commit; the same on all inputs unless a tool set some."""
        found = [one for one in self.metadata if one is not None]
        return max(found, key=lambda one: (one.epoch, one.state), default=None)

    def unlike(self, newest: CommitMetadata | None) -> frozenset[TopicPartition]:
        """The inputs whose commit does not bear this text: another tool set them, or none."""
        texts = zip(self.offsets, self.metadata, strict=True)
        return frozenset(tp for tp, one in texts if one is None or one != newest)

    def are(self, offsets: Mapping[TopicPartition, int], by: str, epoch: int) -> bool:
        """True if this is the commit of that member, epoch and positions, and no other (F4)."""
        same = offsets == self.offsets and bool(self.metadata)
        return same and all(
            one is not None and (one.by, one.epoch) == (by, epoch) for one in self.metadata
        )

    def mark_for(self, member_id: str, generation: int) -> bool:
        """True if all inputs bear the marker of this very order (M7).

        Those without any commit aside: they are new, and its owner does not know of them yet.
        """
        texts = zip(self.offsets.values(), self.metadata, strict=True)
        committed = [one for at, one in texts if at >= 0 or one is not None]
        return bool(committed) and all(
            one is not None and one.is_mark_for(member_id, generation) for one in committed
        )


def _from_record(record: dict[str, Any]) -> CommitMetadata:
    epoch, number = record["state"]
    rebuilt = record.get("rebuilt")
    return CommitMetadata(
        _whole(record["epoch"]),
        _text(record["by"]),
        _whole(record["gen"]),
        _by_partition(record["ends"]),
        StateNumber(_whole(epoch), _whole(number)),
        _text(record["release"]["to"]) if "release" in record else None,
        None if rebuilt is None else _rebuilt_from(rebuilt),
        InputNote.from_json(record["input"]) if "input" in record else InputNote(),
    )


def _rebuilt_from(record: dict[str, Any]) -> Rebuilt:
    starts = _by_partition(record["from"])
    return Rebuilt(_whole(record["epoch"]), bool(record["whole"]), starts)


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def _by_partition(record: dict[str, dict[str, object]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): _whole(offset)
        for topic, parts in record.items()
        for partition, offset in parts.items()
    }


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
