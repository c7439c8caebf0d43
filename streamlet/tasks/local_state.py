"""Judges whether local state goes with its changelogs, and how they are read on.

Local state is believed only as far as the broker's log goes with it: another topic id, a position
before the log's start or behind its end mean that the changelog is not the one that the state was
built from, or that deletions were missed. Then the task starts over from the log's start; but if
its state is exactly that of the commit, a log that lost records is written again from it instead.

The start of a window store's changelog is raised by its owner, which says so in its commits. What
local state has not read of that was about windows that have expired: reading goes on at the start.

A compacted topic keeps a tombstone for ``delete.retention.ms``. State that is older, and whose log
went on, may still have keys that were deleted behind its position, and nothing in the log says so.
State carries the time at which its position was last known to be the log's end. Of an outdated
changelog only what was compacted matters: while the offsets behind the position are without a gap,
nothing was removed there, and the state is continued whatever its age. So state that does not say
how old it is, as earlier versions wrote it, is restored again only where it has to be. A table's
own topic is processed on behind the commit, so a table that is outdated is built again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamlet.kafka.ports import Admin
from streamlet.state.changelog import ChangelogReader, RecordReader
from streamlet.state.holding_reader import HoldingReader
from streamlet.state.plain_reader import PlainReader
from streamlet.tasks.open_task import OpenTask
from streamlet.types import NO_STATE, TopicPartition

#: Kafka's ``delete.retention.ms``, for changelogs whose settings the broker does not tell.
RETENTION_MS = 86_400_000


def prepare_rewrite(opened: OpenTask, starts: Mapping[TopicPartition, int]) -> None:
    """Read changelogs from their starts that will be written again: for their keys only."""
    positions = {tp: starts[tp] for tp in opened.target.rewrite}
    opened.state.time_indexes.forget(opened.target.rewrite)
    opened.state.positions = {**opened.state.positions, **positions}


def mistrust(opened: OpenTask, starts: Mapping[TopicPartition, int]) -> str | None:
    """The reason why the local state does not go with the log; None if it does."""
    state, ids = opened.state, opened.target.topic_ids or {}
    reach = max(state.state, state.reach)
    if opened.target.limit is not None and reach > opened.target.limit:
        return f"its state {tuple(reach)} is ahead of the commit {tuple(opened.target.limit)}"
    if opened.target.decided and state.positions and state.state != opened.target.limit:
        return f"its state {tuple(state.state)} may stem from other records than the log holds"
    if _from_before_rewrite(opened):
        return f"its state {tuple(state.state)} is from before its changelogs lost records"
    for tp in sorted(set(state.changelogs.values()) - opened.target.rewrite):
        known, now = state.topic_ids.get(tp.topic), ids.get(tp.topic)
        if known and now and known != now:
            return f"topic {tp.topic} was created again"
        position = state.positions.get(tp)
        if position is not None and position > opened.ends[tp]:
            return f"{tp} ends at {opened.ends[tp]}, the state was built up to {position}"
        before = position is not None and position < starts[tp]
        if before and not opened.cut_by_owner(tp, starts[tp]):
            return f"{tp} begins at {starts[tp]}, the state was built up to {position}"
    return None


def _from_before_rewrite(opened: OpenTask) -> bool:
    """True if the local state was built from a changelog before that was written again."""
    state, rebuilt = opened.state, opened.target.rebuilt_epoch
    if rebuilt is None or state.state.epoch >= rebuilt:
        return False
    written = [tp for store, tp in state.changelogs.items() if store not in state.plain]
    return any(state.positions.get(tp, 0) and state.epochs.get(tp, 0) < rebuilt for tp in written)


def reader_of(opened: OpenTask, store: str, tp: TopicPartition) -> RecordReader:
    """The reader that knows which records of this changelog count."""
    if store in opened.state.plain:
        return PlainReader(opened.state.stores[store].commits.taken)
    if opened.followed:
        return HoldingReader(str(tp), opened.state.epochs.get(tp, 0), opened.target.epoch)
    if tp in opened.target.rewrite:
        return ChangelogReader(str(tp), NO_STATE, claimed=opened.target.epoch)
    epoch, target = opened.state.epochs.get(tp, 0), opened.target
    return ChangelogReader(str(tp), target.limit, epoch, target.epoch)


# -- state that is too old -------------------------------------------------------------------------


def _behind(opened: OpenTask) -> dict[TopicPartition, int]:
    """Positions of the local state behind which its changelogs have something that counts for it.

    State that is exactly that of the commit lacks nothing, whatever is behind it.
    """
    state = opened.state
    if opened.target.limit not in (None, NO_STATE) and state.state == opened.target.limit:
        return {}
    own = {tp for store, tp in state.changelogs.items() if store not in state.plain}
    return {tp: at for tp, at in state.positions.items() if tp in own and at < opened.ends[tp]}


def outdated(tasks: Iterable[OpenTask], admin: Admin, now_ms: int) -> dict[TopicPartition, str]:
    """Changelogs that may have forgotten deletions which the local state lacks, each with why.

    Raises:
        BrokerError: the broker does not answer.
    """
    positions: dict[TopicPartition, int] = {}
    times: dict[TopicPartition, int] = {}
    for opened in tasks:
        positions |= _behind(opened)
        times |= opened.state.times
    if not positions:
        return {}
    retentions = admin.delete_retentions(sorted({tp.topic for tp in positions}))
    return _too_old(positions, times, retentions, now_ms)


def _too_old(
    positions: Iterable[TopicPartition],
    times: Mapping[TopicPartition, int],
    retentions: Mapping[str, int],
    now_ms: int,
) -> dict[TopicPartition, str]:
    found = {}
    for tp in positions:
        most_ms, at_ms = retentions.get(tp.topic, RETENTION_MS), times.get(tp)
        if at_ms is None:
            found[tp] = "its state does not say how old it is"
        elif now_ms - at_ms > most_ms:
            found[tp] = f"its state is {(now_ms - at_ms) / 1000:,.0f} s old"
        if tp in found:
            found[tp] += f", {tp.topic} keeps deletions for {most_ms / 1000:,.0f} s"
    return found


def outdated_table(opened: OpenTask, admin: Admin, now_ms: int) -> str | None:
    """The reason to build a table over a compacted topic again; None if there is none.

    Raises:
        BrokerError: the broker does not answer.
    """
    state = opened.state
    tables = [tp for store, tp in state.changelogs.items() if store in state.plain]
    old = [tp for tp in tables if tp in state.positions and tp in state.times]
    if not old:
        return None
    retentions = admin.delete_retentions(sorted({tp.topic for tp in old}))
    compacted = [tp for tp in old if tp.topic in retentions]
    found = _too_old(compacted, state.times, retentions, now_ms)
    ends = admin.end_offsets(sorted(found)) if found else {}
    gone_on = [why for tp, why in sorted(found.items()) if ends[tp] > state.positions[tp]]
    return gone_on[0] if gone_on else None
