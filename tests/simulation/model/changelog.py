"""The changelog: what is written, and what a reader makes of it by the project's own reader.

One key. Its value is a number: every input below it was counted in.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from streamlet.kafka.ports import PartitionBatch
from streamlet.state.changelog import ChangelogReader, encode_column
from streamlet.types import NO_STATE, StateNumber
from tests.simulation.model.rules import Rules, affords
from tests.simulation.model.values import Broker, Member, Note, Record, World

_KEY = b"k"
_OPEN = 2  # statuses from here on: of an open transaction


class Read(NamedTuple):
    """What a restore ends with: the value, and the highest epoch met."""

    covers: int
    epoch: int


def restore(log: tuple[Record, ...], note: Note, rules: Rules) -> Read:
    """Read everything that a new owner has to read when it starts from this commit."""
    if rules.exactly_once:
        return _read(_committed(log), None, rules.epochs)
    return _read(log, note.state if rules.numbers else None, rules.epochs, note.epoch)


def _committed(log: tuple[Record, ...]) -> tuple[Record, ...]:
    """What read_committed shows: nothing behind the first open transaction, nothing aborted."""
    stable = next((i for i, record in enumerate(log) if record.status >= _OPEN), len(log))
    return tuple(record for record in log[:stable] if record.status == 0)


@cache
def _read(
    log: tuple[Record, ...], limit: StateNumber | None, epochs: bool, claimed: int = 0
) -> Read:
    reader = ChangelogReader("changelog", limit, claimed=claimed)
    covers = highest = 0
    for offset, record in enumerate(log):
        if not epochs:  # the rule out: a reader that has met nothing yet
            reader = ChangelogReader("changelog", limit, claimed=claimed)
        state = StateNumber(record.epoch, record.number)
        values, headers = encode_column(state, [bytes([record.covers])])
        batch = PartitionBatch("changelog", 0, [offset], [_KEY], values, [0], headers)
        _, found = reader.read(batch)
        highest = max(highest, reader.highest)
        for value in found:
            assert value is not None
            covers = value[0]
    return Read(covers, highest)


def append(broker: Broker, slot: int, member: Member, rules: Rules) -> Broker:
    """What the member's flush leaves behind: one record with the coming commit's number."""
    status = _OPEN + slot if rules.exactly_once else 0
    record = Record(member.epoch, member.number + 1, member.covers, status)
    return broker._replace(log=(*broker.log, record))


def is_open(broker: Broker, slot: int) -> bool:
    """Whether records of the slot's transaction are neither committed nor aborted."""
    return any(record.status == _OPEN + slot for record in broker.log)


def end(log: tuple[Record, ...], slot: int, *, committed: bool) -> tuple[Record, ...]:
    """The log with the slot's transaction ended."""
    status = 0 if committed else 1
    return tuple(r._replace(status=status) if r.status == _OPEN + slot else r for r in log)


def without_aborted_tail(log: tuple[Record, ...]) -> tuple[Record, ...]:
    """Aborted records at the end tell nobody anything."""
    while log and log[-1].status == 1:
        log = log[:-1]
    return log


def compacted(log: tuple[Record, ...]) -> tuple[Record, ...]:
    """The cleaner at its worst: the last record of the key, whatever it is."""
    return log[-1:]


def canonical(world: World, rules: Rules) -> tuple[Record, ...]:
    """The log cut to what any later reader can tell apart, or as it is where that is not known.

    Sound only with C1 and without compaction to come. With numbers the filtered log only rises, so
    of the records up to the commit the last one counts; those beyond it may count later.
    """
    log, limit = world.broker.log, world.broker.note.state
    if rules.exactly_once or not rules.epochs or affords(world.budget, "compact") or len(log) < 2:
        return log
    if not rules.numbers:
        read = _read(log, None, True)
        return (Record(read.epoch, 0, read.covers),)
    return _risen(log, limit)


@cache
def _risen(log: tuple[Record, ...], limit: StateNumber) -> tuple[Record, ...]:
    kept: list[Record] = []
    top = NO_STATE
    for record in log:
        state = StateNumber(record.epoch, record.number)
        if record.epoch < top.epoch:
            continue
        if state < top:
            return log  # a rule is out; nothing can be said
        if state <= limit:
            kept = []
        elif state == top:
            kept.pop()
        top = state
        kept.append(record)
    return tuple(kept)
