"""Turns what a worker has and counted into a ``Snapshot``; reads only, on the worker's thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import attrs

from streamlet.group.handover import Handover
from streamlet.group.handover_values import OURS, Claim, ClaimStage
from streamlet.group.session import GroupSession
from streamlet.runtime.active import ActiveTask
from streamlet.runtime.metrics.meters import Meters
from streamlet.runtime.metrics.values import MemberHealth, Sample, Snapshot
from streamlet.runtime.restore_job import RestoreProgress
from streamlet.types import TaskId, TopicPartition

#: Kafka Streams' states of a thread, as the worker has them.
#: Outcomes for a task whose log does not hold its position: ``runtime.task_failures``.
OUTCOMES = ("earliest", "latest", "restarted", "halted")
STATES = ("CREATED", "REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING", "ERROR")

_T = "streamlet_stream_thread_"
_K = "streamlet_stream_task_"
_C = "streamlet_consumer_coordinator_"


class EndOffsets(Protocol):
    """Knows where partitions end (the worker's consumer)."""

    def known_end(self, partition: TopicPartition) -> int | None:
        """End as of the last fetch, without asking the broker; None before the first."""
        ...


@attrs.frozen
class MeasuredMember:
    """Everything a snapshot is made of.

    Args:
        state: the worker's.
        mode: ``stream.rebalancing.mode``.
        polled: records polled.
        dropped: by all tasks, closed ones included, as are the three counts behind it.
        flush_ns: what commits waited for delivery.
        tasks: active tasks held.
        roles: role and stage of every task, copies included.
        lags: of copies, with their roles.
        waiting: active tasks that do not run yet.
        advice: for the whole application, where this member works it out.
        global_lags: records that its copies of global tables lack, by partition.
    """

    state: str
    mode: str
    polled: int
    dropped: int
    late: int
    skipped: int
    dead_lettered: int
    flush_ns: int
    tasks: Mapping[TaskId, ActiveTask]
    roles: Mapping[TaskId, tuple[str, str]]
    lags: Mapping[TaskId, tuple[str, int]]
    waiting: tuple[TaskId, ...]
    advice: Mapping[str, Any] | None = None
    global_lags: Mapping[TopicPartition, int] = attrs.field(factory=dict)


def roles_of(rules: Handover) -> dict[TaskId, tuple[str, str]]:
    """Role and stage of every task that the rules know of; what was given up is left out."""
    found: dict[TaskId, tuple[str, str]] = {}
    for task, one in rules.copies.items():
        stage = ("ready" if one.ready else "learning") if one.role == "learner" else "following"
        found[task] = (one.role.value, stage)
    for task, claim in rules.claims.items():
        role = _role(claim)
        if role is not None:
            found[task] = (role, claim.stage.value)
    return dict(sorted(found.items()))


def lags_of(rules: Handover) -> dict[TaskId, tuple[str, int]]:
    """The lag of every copy, with its role."""
    roles = roles_of(rules)
    return {
        task: (roles[task][0], one.lag)
        for task, one in sorted(rules.copies.items())
        if one.lag is not None and roles[task][0] != "active"
    }


def _role(claim: Claim) -> str | None:
    if claim.stage in OURS:
        return "active"
    return "pending" if claim.stage is ClaimStage.WAITING else None


def measure(
    member: MeasuredMember, meters: Meters, standing: GroupSession, ends: EndOffsets
) -> Snapshot:
    """A member at this moment."""
    now, wall = meters.clock.now_ms(), meters.clock.wall_ms()
    age_ms = max(0, now - standing.view.last_heartbeat_ms)
    samples = [
        *_thread(member, meters, now),
        *_membership(member, meters, standing, wall, age_ms),
        *_roles(member),
        *_moves(meters),
        *_advice(member.advice),
    ]
    for task in sorted(member.tasks):
        samples += _task(member.tasks[task], ends)
    for tp, lag in sorted(member.global_lags.items()):
        samples.append(_one("streamlet_global_table_records_lag", lag, tp.topic, str(tp.partition)))
    for (task, store), progress in sorted(meters.restores.items()):
        samples += _restore(str(task), store, progress)
    health = MemberHealth(
        member.state,
        standing.view.generation,
        age_ms,
        standing.view.linked,
        tuple(map(str, member.waiting)),
    )
    return Snapshot(tuple(samples), health)


def _one(name: str, value: float | list[float], *labels: str) -> Sample:
    return Sample(name, labels, value)


def _thread(member: MeasuredMember, meters: Meters, now_ms: int) -> Iterator[Sample]:
    live = sum(_records(active) for active in member.tasks.values())
    processed = meters.processed_before + live
    for state in STATES:
        yield _one(_T + "state", float(state == member.state), state)
    yield _one(_T + "start_time_seconds", meters.started_wall_ms / 1000)
    yield _one(_T + "poll_latency_seconds", meters.poll.value())
    yield _one(_T + "poll_records_total", member.polled)
    yield _one(_T + "process_total", processed)
    yield _one(_T + "process_rate", meters.process_rate.add(now_ms, processed))
    yield _one(_T + "process_latency_seconds", meters.process.value())
    yield _one(_T + "commit_latency_seconds", meters.commit.value())
    yield _one(_T + "commit_flush_seconds_total", member.flush_ns / 1e9)
    yield _one(_T + "task_created_total", meters.created)
    yield _one(_T + "task_closed_total", meters.closed)
    yield _one(_T + "store_failures_total", meters.store_failures)
    for outcome in OUTCOMES:
        yield _one(_T + "out_of_range_total", meters.out_of_range[outcome], outcome)
    yield _one(_T + "dropped_records_total", member.dropped)
    yield _one(_T + "late_records_total", member.late)
    yield _one(_T + "skipped_records_total", member.skipped)
    yield _one(_T + "dead_lettered_records_total", member.dead_lettered)


def _membership(
    member: MeasuredMember, meters: Meters, standing: GroupSession, wall_ms: int, age_ms: int
) -> Iterator[Sample]:
    yield _one(_C + "rebalance_total", meters.rebalances)
    yield _one(_C + "last_rebalance_timestamp_seconds", meters.last_rebalance_wall_ms / 1000)
    yield _one(_C + "last_heartbeat_timestamp_seconds", (wall_ms - age_ms) / 1000)
    yield _one(_C + "lost_total", meters.lost)
    yield _one("streamlet_consumer_last_poll_timestamp_seconds", wall_ms / 1000)
    yield _one("streamlet_group_generation", standing.view.generation)
    yield _one("streamlet_group_info", 1, member.mode)


def _roles(member: MeasuredMember) -> Iterator[Sample]:
    counts = Counter(role for role, _ in member.roles.values())
    for role in ("active", "pending", "learner", "standby"):
        yield _one(_T + "tasks", counts[role], role)
    for task, (role, stage) in member.roles.items():
        yield _one(_K + "info", 1, str(task), role, stage)
    for task, (role, lag) in member.lags.items():
        yield _one(_K + "copy_lag", lag, str(task), role)


def _advice(advice: Mapping[str, Any] | None) -> Iterator[Sample]:
    if advice is not None:
        yield _one("streamlet_advised_instances", advice["instances"])
        yield _one("streamlet_current_instances", advice["current"])
        yield _one("streamlet_application_input_lag", advice["lag"])
        yield _one("streamlet_application_input_lag_per_second", advice["lag_per_s"])


def _moves(meters: Meters) -> Iterator[Sample]:
    yield _one("streamlet_handover_release_seconds", meters.release.value())
    yield _one("streamlet_handover_activate_seconds", meters.activate_marked.value())
    yield _one(_K + "activate_seconds", meters.activate_outright.value())


def _task(active: ActiveTask, ends: EndOffsets) -> Iterator[Sample]:
    processor, task = active.processor, str(active.task)
    assert processor is not None
    yield _one(_K + "process_total", processor.counters.records, task)
    yield _one(_K + "dropped_records_total", processor.counters.dropped, task)
    yield _one(_K + "late_records_total", processor.counters.late, task)
    yield _one(_K + "skipped_records_total", processor.counters.skipped, task)
    for kind, count in (processor.edges.dropped if processor.edges else {}).items():
        yield _one(_K + "repetitions_dropped_total", count, task, kind)
    yield _one(_K + "active_buffered_records", sum(processor.buffered().values()), task)
    if processor.calls is not None:
        yield _one(_K + "calls_in_flight", processor.calls.in_flight, task)
    yield _one(_K + "dirty_bytes", active.state.dirty_bytes(), task)
    for tp in active.inputs:
        end = ends.known_end(tp)
        if end is not None:
            lag = max(0, end - processor.positions[tp])
            name = "streamlet_consumer_fetch_manager_records_lag"
            yield _one(name, lag, task, tp.topic, str(tp.partition))


def _restore(task: str, store: str, progress: RestoreProgress) -> Iterator[Sample]:
    yield _one(_K + "restore_total", progress.restored, task, store)
    yield _one(_K + "restore_remaining_records", progress.remaining, task, store)
    yield _one(_K + "restore_rate", progress.rate if progress.remaining else 0.0, task, store)


def _records(active: ActiveTask) -> int:
    return 0 if active.processor is None else active.processor.counters.records
