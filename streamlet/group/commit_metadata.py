"""The text beside each committed position: who committed, and what the commit contains.

Compact JSON, the same on all input partitions of a task (hand-over rule W1)::

    {"v":1,"epoch":3,"by":"<member id>","gen":7,"ends":{"app-counts-changelog":{"0":120}},
     "state":[3,9],"release":{"to":"<member id>"}}

``epoch`` fences (W5), ``state`` is what the committed positions contain (N1), ``ends`` is one
more than the last delivered changelog offset. With ``release`` it is a mark (W2); nothing else is.
``rebuilt`` is there once a changelog does not hold all that was ever written to it: its owner had
records of expired windows deleted, it had lost records, or the task had to go on with other state
than that of its last commit:
``{"epoch":7,"whole":true,"from":{"app-counts-changelog":{"0":990}}}``. ``input`` is about the one
partition whose position this is (``group.input_notes``), everything else about the task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from streamlet.errors import GroupError
from streamlet.group.input_notes import InputNote
from streamlet.types import NO_STATE, StateNumber, TopicPartition

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
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            OverflowError,
        ) as error:
            raise CommitMetadataError(
                f"commit metadata does not fit together: {text[:80]!r}"
            ) from error


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
