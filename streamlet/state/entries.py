"""Commit entries: the input positions that a changelog keeps beside the state they belong to.

The last record that a flush writes to a changelog partition bears an entry in the header ``p``: the
input positions of that commit, and per changelog of the task the number that was last written to
it. Where the group's committed positions are lost, the newest entry whose records are all there
says which state and which positions belong together. Versions that know no entries ignore the
header, and restoring does not read it.

Pure: no store, no client, no clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import attrs

from streamlet.bounded import offsets_by_topic, offsets_of, parsed, whole
from streamlet.kafka.ports import Headers
from streamlet.state.epochs import MOST_CLAIMS
from streamlet.state.log_numbers import named, pack_logs, unpack_logs
from streamlet.types import NO_STATE, StateNumber, TopicPartition

ENTRY_HEADER = "p"
#: An entry that takes more names changelogs by numbers, where all who may read it know these: each
#: changelog of a flush bears all their names, which was 16 kB with 200 stores of long names.
PLAIN_BYTES = 1_024


@attrs.frozen
class CommitEntry:
    """The input positions of one commit, and up to which number each changelog was written.

    ``written`` names the last number of this epoch in each changelog topic of the task, that of
    this commit included. ``starts`` are the offsets from which on changelog topics hold the whole
    state of this commit, of those that may lack older records. ``application`` is the id of the
    application whose changelog it is: by it a topic proves itself, whatever its name.
    """

    state: StateNumber
    inputs: Mapping[TopicPartition, int]
    written: Mapping[str, int]
    starts: Mapping[str, int] = attrs.field(factory=dict)
    application: str = ""

    def header(self, *, compact: bool = False) -> tuple[str, bytes]:
        """The entry as a record header; the record itself tells the state number.

        ``compact``: with numbers in place of the names of changelogs, if these are long.
        """
        fields: dict[str, Any] = {"in": offsets_by_topic(self.inputs), "log": dict(self.written)}
        if self.application:
            fields["app"] = self.application
        if self.starts:
            fields["from"] = dict(self.starts)
        plain = _encoded(fields)
        if not compact or len(plain) <= PLAIN_BYTES:
            return ENTRY_HEADER, plain
        numbers, starts = (_at_zero(one) for one in (self.written, self.starts))
        fields = {name: one for name, one in fields.items() if name not in ("log", "from")}
        return ENTRY_HEADER, _encoded({**fields, "logs": pack_logs(numbers, starts)})

    def named(self, topics: Iterable[str]) -> Self:
        """The entry with names of topics in place of their numbers.

        Numbers of others are left out.
        """
        topics = tuple(topics)
        written, starts = (named(_at_zero(one), topics) for one in (self.written, self.starts))
        return attrs.evolve(self, written=_by_topic(written), starts=_by_topic(starts))

    @classmethod
    def of(cls, state: StateNumber, headers: Headers | None) -> Self | None:
        """The entry of a record with this number; None if it bears none that can be read.

        Topics of a compact one are numbers, see ``named``.
        """
        raw = next((value for name, value in headers or () if name == ENTRY_HEADER), None)
        try:
            fields = parsed(raw or b"null")
            inputs = offsets_of(fields["in"])
            if "logs" in fields:
                written, starts = map(_by_topic, unpack_logs(fields["logs"]))
            else:
                written = {topic: whole(number) for topic, number in fields["log"].items()}
                starts = {topic: whole(offset) for topic, offset in fields.get("from", {}).items()}
            application = str(fields.get("app", ""))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
        return cls(state, inputs, written, starts, application)


def _encoded(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _at_zero(numbers: Mapping[str, int]) -> dict[TopicPartition, int]:
    """Numbers of topics as they are packed: all of one partition, as it is the record's."""
    return {TopicPartition(topic, 0): number for topic, number in numbers.items()}


def _by_topic(numbers: Mapping[TopicPartition, int]) -> dict[str, int]:
    return {tp.topic: number for tp, number in numbers.items()}


@attrs.define
class ChangelogEntries:
    """The entries of one changelog partition, taken record by record in the order of offsets."""

    #: Highest epoch met; records of a lower one are a stale owner's and do not count, and those far
    #: above it had no owner.
    highest: int = 0
    newest: StateNumber = NO_STATE
    entries: list[CommitEntry] = attrs.field(factory=list)
    #: The epoch of the newest claim; 0: not known.
    claimed: int = 0

    def take(self, state: StateNumber, headers: Headers | None) -> None:
        """Note a record's number, and its entry if it has one."""
        if not self.highest <= state.epoch <= max(self.highest, self.claimed) + MOST_CLAIMS:
            return
        self.highest = state.epoch
        self.newest = max(self.newest, state)
        entry = CommitEntry.of(state, headers) if headers else None
        if entry is not None:
            self.entries.append(entry)


def newest_complete(
    logs: Mapping[str, ChangelogEntries], starts: Mapping[str, int] | None = None
) -> CommitEntry | None:
    """The newest commit entry whose records are all in the changelogs; None if unsure.

    Args:
        logs: what each changelog topic of the task holds.
        starts: where topics begin of which only entries can tell that they are whole.
    """
    last = {topic: max((e.state for e in log.entries), default=None) for topic, log in logs.items()}
    found = {one.state: one.named(logs) for log in logs.values() for one in log.entries}
    for state in sorted(found, reverse=True):
        entry = found[state]
        if any(start > entry.starts.get(topic, 0) for topic, start in (starts or {}).items()):
            continue
        if all(
            (end := last[topic]) is not None and end >= StateNumber(state.epoch, number)
            for topic, number in entry.written.items()
            if topic in last
        ):
            # Records far behind it tell of commits that one of the logs has lost.
            newest = (log.newest for log in logs.values())
            return None if any(proves_later(one, entry.state) for one in newest) else entry
    return None


def proves_later(record: StateNumber, commit: StateNumber) -> bool:
    """True if a record was written after a later commit than this one was accepted.

    An owner writes number n + 1 only after commit n was accepted, and its claim is commit 0.
    """
    accepted = commit.number if record.epoch == commit.epoch else 0
    return record.epoch >= commit.epoch and record.number > accepted + 1


def entry_last(
    keys: Sequence[bytes], values: Sequence[bytes | None]
) -> tuple[Sequence[bytes], Sequence[bytes | None]]:
    """The columns of a flush, with a record last that compaction keeps: no tombstone if it can be.

    The keys of a flush differ from each other, so their order does not matter.
    """
    last = len(values) - 1
    kept = next((i for i in range(last, -1, -1) if values[i] is not None), last)
    if kept == last:
        return keys, values
    order = [*range(kept), *range(kept + 1, last + 1), kept]
    return [keys[i] for i in order], [values[i] for i in order]
