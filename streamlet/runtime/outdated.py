"""Finds local state that is older than its log's memory of deletions.

A compacted topic keeps a tombstone for ``delete.retention.ms``. State that is older, and whose log
went on, may still have keys that were deleted behind its position, and nothing in the log says so.
State carries the time at which its position was last known to be the log's end.

Of an outdated changelog only what was compacted matters: while the offsets behind the position are
without a gap, nothing was removed there, and the state is continued whatever its age. So state that
does not say how old it is, as earlier versions wrote it, is restored again only where it has to be.
A table's own topic is processed on behind the commit, so a table that is outdated is built again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamlet.kafka.ports import Admin
from streamlet.runtime.restore_job import RestoreJob
from streamlet.types import NO_STATE, TopicPartition

#: Kafka's ``delete.retention.ms``, for changelogs whose settings the broker does not tell.
RETENTION_MS = 86_400_000


def _behind(job: RestoreJob) -> dict[TopicPartition, int]:
    """Positions of the local state behind which its changelogs have something that counts for it.

    State that is exactly that of the commit lacks nothing, whatever is behind it.
    """
    state = job.state
    if job.limit not in (None, NO_STATE) and state.state == job.limit:
        return {}
    own = {tp for store, tp in state.changelogs.items() if store not in state.plain}
    return {tp: at for tp, at in state.positions.items() if tp in own and at < job.ends[tp]}


def outdated(jobs: Iterable[RestoreJob], admin: Admin, now_ms: int) -> dict[TopicPartition, str]:
    """Changelogs that may have forgotten deletions which the local state lacks, each with why.

    Raises:
        BrokerError: the broker does not answer.
    """
    positions: dict[TopicPartition, int] = {}
    times: dict[TopicPartition, int] = {}
    for job in jobs:
        positions |= _behind(job)
        times |= job.state.times
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


def outdated_table(job: RestoreJob, admin: Admin, now_ms: int) -> str | None:
    """The reason to build a table over a compacted topic again; None if there is none.

    Raises:
        BrokerError: the broker does not answer.
    """
    state = job.state
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
