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

``txn`` is there, and true, if a transaction made the commit.

``born`` is there if the task writes records that wait for its commits: s since the epoch when its
epochs began to count; and ``key``, in base 85, with which it signs what it tells their readers.
``origins`` names, by numbers in base 85, the repartition topics to which what it writes bears
origins.

``input`` is about the one partition whose position this is, everything else about the task::

    "input": {"inc": 1766000000, "applied": "<base 85>", "held": "<base 85>", "plain": 1200,
              "open": true, "id": "<topic id>"}

``applied`` has an entry per edge, ``held`` one per writer (``commit_packing``). ``id`` is Kafka's
of the topic that the position is one of: a topic that was deleted and made again has another.
Topics that streamlet makes itself have none here.

A broker takes a text of 4,096 bytes, or what its ``offset.metadata.max.bytes`` says. Where names of
many changelogs are longer than that, the text is in compact form, of which each has some 15 bytes,
whatever its name: version 2 has ``logs`` in place of ``ends`` and of ``from``. Programs that know
version 1 only cannot read it, so it is written only if all members of the group can.

Any member of the group may write any text. A number that cannot be is an error where it is read.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from streamlet.bounded import (
    EPOCH_MAX,
    INT32_MAX,
    TASK_NUMBER_MAX,
    offsets_by_topic,
    offsets_of,
    parsed,
    text_of,
    whole,
)
from streamlet.coordinator.commit_packing import (
    WriterMark,
    pack_applied,
    pack_marks,
    pack_numbers,
    unpack_applied,
    unpack_marks,
    unpack_numbers,
)
from streamlet.coordinator.messages import Committed
from streamlet.coordinator.metadata_fields import flag_of, key_of
from streamlet.errors import GroupError
from streamlet.state.log_numbers import named, pack_logs, unpack_logs
from streamlet.types import NO_STATE, StateNumber, TopicPartition
from streamlet.user_code import shown

#: The highest incarnation that is read: the next one fits into an edge, too.
_INCARNATION_MAX = (1 << 32) - 2


@attrs.frozen
class InputNote:
    """The facts about one input partition that belong to a committed position.

    Attributes:
        incarnation: raised when the position was set back on purpose; 0 if never.
        applied: highest origin applied of each edge, its lowest bit set.
        loose: edges whose next record need not follow on that, because records were skipped.
        open: an edge that is not in ``applied`` may begin with any record.
        leaps: the ends of steps between which no origin of an edge was applied, lowest first.
        topic_id: of the topic that the position is one of; empty: not known.
        held: marks of the writers whose records wait for their commits.
        plain: below this offset records that wait for no commit were processed, behind the
            position; 0: none were.
    """

    incarnation: int = 0
    applied: Mapping[int, int] = attrs.field(factory=dict)
    loose: frozenset[int] = frozenset()
    open: bool = False
    leaps: Mapping[int, tuple[tuple[int, int], ...]] = attrs.field(factory=dict)
    topic_id: str = ""
    held: Mapping[int, WriterMark] = attrs.field(factory=dict)
    plain: int = 0

    def skipped(self) -> InputNote:
        """The note for skipped records: each edge goes on with the next record, whatever it is."""
        return attrs.evolve(self, loose=frozenset(self.applied), open=True)

    def as_json(self) -> dict[str, Any] | None:
        """The form in commit metadata; None if there is nothing to note."""
        fields: dict[str, Any] = {}
        if self.incarnation:
            fields["inc"] = self.incarnation
        if self.applied:
            fields["applied"] = pack_applied(self.applied, self.loose, self.leaps)
        if self.held:
            fields["held"] = pack_marks(self.held)
        if self.plain:
            fields["plain"] = self.plain
        if self.open:
            fields["open"] = True
        if self.topic_id:
            fields["id"] = self.topic_id
        return fields or None

    @classmethod
    def from_json(cls, fields: Any) -> InputNote:
        """Read the packed text that the function above writes.

        Raises:
            ValueError, TypeError, AttributeError: it is damaged.
        """
        applied, loose, leaps = unpack_applied(fields.get("applied", ""))
        incarnation = whole(fields.get("inc", 0), 0, _INCARNATION_MAX)
        is_open, topic_id = flag_of(fields.get("open", False)), text_of(fields.get("id", ""))
        held = unpack_marks(fields.get("held", ""))
        plain = whole(fields.get("plain", 0))
        return cls(incarnation, applied, loose, is_open, leaps, topic_id, held, plain)

    def is_of(self, ids: Mapping[str, str], topic: str) -> bool:
        """True unless the topic has another id by now than when the position was committed."""
        return not self.topic_id or ids.get(topic, self.topic_id) == self.topic_id


#: The broker's ``offset.metadata.max.bytes`` unless it was changed.
METADATA_MAX_BYTES = 4_096

VERSION = 1
#: Of the compact form.
COMPACT_VERSION = 2


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
    """The note with the offsets added from which changelogs hold the whole state."""
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
    #: When the epochs of the task began to count, s since the epoch; 0: nothing it writes waits.
    born: int = 0
    #: With which it signs what it tells the readers of these.
    key: bytes = attrs.field(default=b"", repr=False)
    #: Whether it was made by a transaction.
    transaction: bool = False
    #: The repartition topics to which what it writes bears origins (``log_numbers.number_of``).
    origins: frozenset[int] = frozenset()
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

    def to_text(self, *, compact: bool = False) -> str:
        """Write the text, in compact form if asked."""
        rebuilt = self.rebuilt
        starts = {} if rebuilt is None else rebuilt.starts
        record: dict[str, Any] = {
            "v": COMPACT_VERSION if compact else VERSION,
            "epoch": self.epoch,
            "by": self.by,
            "gen": self.generation,
        }
        if compact:
            record["logs"] = pack_logs(self.ends, starts)
        else:
            record["ends"] = offsets_by_topic(self.ends)
        record["state"] = list(self.state)
        if rebuilt is not None:
            record["rebuilt"] = {"epoch": rebuilt.epoch, "whole": rebuilt.whole}
            if not compact:
                record["rebuilt"]["from"] = offsets_by_topic(starts)
        if self.born:
            record["born"] = self.born
        if self.key:
            record["key"] = base64.b85encode(self.key).decode()
        if self.transaction:
            record["txn"] = True
        if self.origins:
            record["origins"] = pack_numbers(self.origins)
        if (note := self.note.as_json()) is not None:
            record["input"] = note
        if self.release_to is not None:
            record["release"] = {"to": self.release_to}
        return _compact(record)

    def named(self, topics: Iterable[str]) -> CommitMetadata:
        """The metadata with names of changelogs in place of the numbers of a compact text.

        Other changelogs of that text are left out.
        """
        rebuilt = self.rebuilt
        if rebuilt is not None:
            rebuilt = attrs.evolve(rebuilt, starts=named(rebuilt.starts, topics))
        return attrs.evolve(self, ends=named(self.ends, topics), rebuilt=rebuilt)

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
            record = parsed(text)
        except ValueError as error:
            if text.startswith('{"v":'):
                raise CommitMetadataError(
                    f"commit metadata cannot be read: {shown(text)}"
                ) from error
            return None
        if not isinstance(record, dict) or "v" not in record:
            return None
        if record["v"] not in (VERSION, COMPACT_VERSION):
            raise CommitMetadataError(
                f"commit metadata has version {shown(record['v'])}, this streamlet reads {VERSION} "
                f"and {COMPACT_VERSION}"
            )
        try:
            return _from_record(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"commit metadata does not fit together: {shown(text)}"
            raise CommitMetadataError(what) from error


def with_note(text: str, note: InputNote) -> str:
    """A text without a note about an input, with this one added."""
    fields = note.as_json()
    return text if fields is None else f'{text[:-1]},"input":{_compact(fields)}}}'


def _compact(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


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

    def named(self, topics: Iterable[str]) -> Positions:
        """The positions with the names of these changelogs, as ``CommitMetadata.named``."""
        topics = tuple(topics)
        texts = (None if one is None else one.named(topics) for one in self.metadata)
        return Positions(self.offsets, tuple(texts))

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
    if record["v"] == COMPACT_VERSION:
        ends, starts = unpack_logs(text_of(record["logs"]))
    else:
        ends = offsets_of(record["ends"], TASK_NUMBER_MAX)
        starts = {} if rebuilt is None else offsets_of(rebuilt["from"], TASK_NUMBER_MAX)
    return CommitMetadata(
        whole(record["epoch"], 0, EPOCH_MAX),
        text_of(record["by"]),
        whole(record["gen"], -1, INT32_MAX),
        ends,
        StateNumber(whole(epoch, 0, EPOCH_MAX), whole(number)),
        text_of(record["release"]["to"]) if "release" in record else None,
        None
        if rebuilt is None
        else Rebuilt(whole(rebuilt["epoch"], 0, EPOCH_MAX), flag_of(rebuilt["whole"]), starts),
        whole(record.get("born", 0), 0, _INCARNATION_MAX),
        key_of(record.get("key", "")),
        flag_of(record.get("txn", False)),
        unpack_numbers(text_of(record.get("origins", ""))),
        InputNote.from_json(record["input"]) if "input" in record else InputNote(),
    )
