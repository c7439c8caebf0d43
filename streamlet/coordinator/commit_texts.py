"""The texts beside the positions of a task's commit: their form, and how long they get; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from streamlet.coordinator.commit_metadata import (
    METADATA_MAX_BYTES,
    CommitMetadata,
    CommitMetadataError,
    InputNote,
    Rebuilt,
    with_note,
)
from streamlet.coordinator.metadata_fields import KEY_BYTES
from streamlet.kafka.ports import Admin
from streamlet.types import StateNumber, TopicPartition

#: The broker's setting for the longest text.
LIMIT = "offset.metadata.max.bytes"

#: The highest numbers that a text is to have room for.
_MOST_OFFSET = (1 << 42) - 2
_MOST_COUNT = 1 << 40
_MOST_PARTITION = 99_999
_MOST_INT32 = (1 << 31) - 1
#: Characters of the longest member id: a host's name, numbers and a UUID.
_MEMBER_ID = 104
#: Characters of the id of a topic.
_TOPIC_ID = 22


def commit_limit(admin: Admin) -> int | None:
    """The bytes that a broker takes beside a committed position; None if it does not tell."""
    found = admin.broker_setting(LIMIT)
    return int(found) if found is not None and found.isdecimal() else None


@attrs.define
class TextRules:
    """The limits for texts.

    Attributes:
        max_bytes: of a text, as the broker says; None: it does not say, so it is tried.
        compact: all members of the group can read the compact form, as of its last assignment.
    """

    max_bytes: int | None = METADATA_MAX_BYTES
    compact: bool = False

    def texts(
        self, plain: CommitMetadata, notes: Mapping[TopicPartition, InputNote]
    ) -> dict[TopicPartition, str]:
        """The text beside each input of a task, all of them in one form: compact if need be.

        Args:
            plain: what is said about the task.
            notes: what is said about each input.

        Raises:
            CommitMetadataError: one is longer than the broker takes.
        """
        found = _texts(plain, notes, compact=False)
        size = _longest(found.values())
        if self.compact and size > min(self.max_bytes or METADATA_MAX_BYTES, METADATA_MAX_BYTES):
            found = _texts(plain, notes, compact=True)
            size = _longest(found.values())
        if size > (self.max_bytes or METADATA_MAX_BYTES) and any(n.leaps for n in notes.values()):
            bare = {tp: attrs.evolve(note, leaps={}) for tp, note in notes.items()}
            return self.texts(plain, bare)  # they are of use where records were forged only
        if self.max_bytes is not None and size > self.max_bytes:
            old = "" if self.compact else ", or end the members of older versions"
            raise CommitMetadataError(
                f"commit metadata takes {size} bytes for {len(plain.ends)} changelog partitions, "
                f"the broker takes {self.max_bytes}; raise the brokers' {LIMIT}, use fewer stores "
                f"in one subtopology{old}"
            )
        return found


def _texts(
    plain: CommitMetadata, notes: Mapping[TopicPartition, InputNote], *, compact: bool
) -> dict[TopicPartition, str]:
    alone = plain.to_text(compact=compact)
    return {tp: with_note(alone, note) for tp, note in notes.items()}


def _longest(texts: Iterable[str]) -> int:
    return max((len(text.encode()) for text in texts), default=0)


def longest_text(
    changelogs: Collection[str], sources: int, *, signs: bool = False, between: int = 0
) -> int:
    """Bytes of the longest text that a task's commit can ever have, in compact form.

    Args:
        changelogs: topics that the task writes.
        sources: input partitions whose records meet in one of its inputs with prefixes.
        signs: whether it writes records that wait for its commits.
        between: repartition topics that it writes.
    """
    ends = {TopicPartition(topic, _MOST_PARTITION): _MOST_OFFSET for topic in changelogs}
    rest = (1 << 20) - 1
    applied = {source << 32 | 0xFFFFFFFF: _MOST_OFFSET << 20 | rest for source in range(sources)}
    member_id = "m" * _MEMBER_ID
    longest = CommitMetadata(
        _MOST_INT32,
        member_id,
        _MOST_INT32,
        ends,
        StateNumber(_MOST_INT32, _MOST_COUNT),
        release_to=member_id,
        rebuilt=Rebuilt(_MOST_INT32, whole=False, starts=ends),
        born=_MOST_INT32 if signs else 0,
        key=bytes(KEY_BYTES if signs else 0),
        transaction=True,
        origins=frozenset(range(between)),
        note=InputNote(
            *(_MOST_INT32, applied),
            open=True,
            topic_id="" if applied else "i" * _TOPIC_ID,
            plain=_MOST_OFFSET if applied else 0,
        ),
    )
    return len(longest.to_text(compact=True).encode())
