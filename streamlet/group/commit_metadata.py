"""The text beside each committed position: who committed, and what the commit contains.

Compact JSON, the same on all input partitions of a task (hand-over rule W1)::

    {"v":1,"epoch":3,"by":"<member id>","gen":7,"ends":{"app-counts-changelog":{"0":120}},
     "state":[3,9],"release":{"to":"<member id>"}}

``epoch`` fences (W5), ``state`` is what the committed positions contain (N1), ``ends`` is one
more than the last delivered changelog offset. With ``release`` it is a mark (W2); nothing else is.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from streamlet.errors import GroupError
from streamlet.types import NO_STATE, StateNumber, TopicPartition

#: The broker's ``offset.metadata.max.bytes`` unless somebody changed it.
METADATA_MAX_BYTES = 4_096

VERSION = 1


class CommitMetadataError(GroupError):
    """Text beside a committed position that says it is ours and cannot be read, or is too long."""


@attrs.frozen
class CommitMetadata:
    """What a commit says of its task. ``release_to`` is the member id a mark is for."""

    epoch: int
    by: str
    generation: int
    ends: dict[TopicPartition, int] = attrs.field(factory=dict)
    state: StateNumber = NO_STATE
    release_to: str | None = None

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
        ends: dict[str, dict[str, int]] = {}
        for partition, end in sorted(self.ends.items()):
            ends.setdefault(partition.topic, {})[str(partition.partition)] = end
        record: dict[str, Any] = {
            "v": VERSION,
            "epoch": self.epoch,
            "by": self.by,
            "gen": self.generation,
            "ends": ends,
            "state": list(self.state),
        }
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
        """As ``from_text`` for who goes on without: text that cannot be read says nothing."""
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


def _from_record(record: dict[str, Any]) -> CommitMetadata:
    epoch, number = record["state"]
    ends = {
        TopicPartition(topic, int(partition)): _whole(end)
        for topic, parts in record["ends"].items()
        for partition, end in parts.items()
    }
    return CommitMetadata(
        _whole(record["epoch"]),
        _text(record["by"]),
        _whole(record["gen"]),
        ends,
        StateNumber(_whole(epoch), _whole(number)),
        _text(record["release"]["to"]) if "release" in record else None,
    )


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
