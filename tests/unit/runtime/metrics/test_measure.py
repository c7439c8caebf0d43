"""Whole workers measure themselves: the table names all that is told, and the values are true."""

from __future__ import annotations

from pathlib import Path

from streamlet.runtime.metrics.metric import MetricType
from streamlet.runtime.metrics.table import METRICS
from streamlet.runtime.metrics.values import Snapshot
from tests.unit.runtime.members import Group, Member, wait_for

#: Those that the instance, not a member, tells.
OF_INSTANCE = {
    "streamlet_info",
    "streamlet_stream_alive_stream_threads",
    "streamlet_stream_failed_stream_threads_total",
}


def newest(member: Member, name: str, *labels: str) -> float | list[float]:
    """The newest value of a metric that has one."""
    for snapshot in reversed(member.snapshots):
        for sample in snapshot.samples:
            if sample.metric == name and sample.labels == labels:
                return sample.value
    raise AssertionError(f"{member.name} never told {name} {labels}")


def count(member: Member, name: str) -> float:
    """How many durations a histogram has."""
    value = newest(member, name)
    assert isinstance(value, list)
    return sum(value[:-1])


def roles(snapshot: Snapshot) -> set[tuple[str, ...]]:
    return {s.labels for s in snapshot.samples if s.metric == "streamlet_stream_task_info"}


def test_two_workers_tell_everything_about_their_tasks_and_moves(tmp_path: Path) -> None:
    group = Group(tmp_path, num_standby_replicas="1")
    with group.cluster:
        try:
            group.produce(5)
            a = group.member("a")
            wait_for(lambda: group.put_out == 200, "the first counts")
            b = group.member("b")
            wait_for(lambda: group.shares() == [2, 2], "two tasks each")
            group.produce(5)
            wait_for(lambda: group.put_out == 400, "all counts")
        finally:
            group.end()
    assert (a.failed, b.failed) == (None, None)

    told = [s for m in (a, b) for snapshot in m.snapshots for s in snapshot.samples]
    # There are no global tables, async calls, suppress and repartitions, nor statistics of RocksDB;
    # all keys lie where they should.
    without = OF_INSTANCE | {
        "streamlet_global_table_records_lag",
        "streamlet_stream_processor_node_suppression_emit_total",
        "streamlet_stream_state_block_cache_hits_total",
        "streamlet_stream_state_block_cache_misses_total",
        "streamlet_stream_state_memtable_hits_total",
        "streamlet_stream_state_memtable_misses_total",
        "streamlet_stream_state_suppression_buffer_records",
        "streamlet_stream_state_suppression_buffer_size_bytes",
        "streamlet_stream_state_write_stall_seconds_total",
        "streamlet_stream_task_calls_in_flight",
        "streamlet_stream_task_held_records",
        "streamlet_stream_task_held_seconds",
        "streamlet_stream_task_markers_total",
        "streamlet_stream_thread_misplaced_records_total",
    }
    assert {s.metric for s in told} == set(METRICS) - without
    for sample in told:
        metric = METRICS[sample.metric]
        assert len(sample.labels) == len(metric.labels), sample
        assert isinstance(sample.value, list) == (metric.kind is MetricType.HISTOGRAM), sample

    processed = [newest(m, "streamlet_stream_thread_process_total") for m in (a, b)]
    assert sum(processed) == 400  # type: ignore[arg-type]
    assert all(processed)
    assert count(a, "streamlet_handover_release_seconds") == 2
    assert count(b, "streamlet_handover_activate_seconds") == 2
    assert count(a, "streamlet_stream_task_activate_seconds") == 4
    assert newest(a, "streamlet_stream_thread_task_created_total") == 4
    assert newest(b, "streamlet_stream_thread_task_created_total") == 2
    for member in (a, b):
        assert newest(member, "streamlet_consumer_coordinator_rebalance_total") >= 2  # type: ignore[operator]
        assert count(member, "streamlet_stream_thread_commit_latency_seconds") > 0
        assert newest(member, "streamlet_consumer_coordinator_lost_total") == 0
        states = [snapshot.health.state for snapshot in member.snapshots]
        assert states[0] == "REBALANCING"
        assert "RUNNING" in states
        assert states[-1] == "NOT_RUNNING"
    seen = set().union(*(roles(snapshot) for snapshot in b.snapshots))
    stages = {(role, stage) for _, role, stage in seen}
    assert ("active", "running") in stages
    assert ("pending", "waiting") in stages or ("learner", "learning") in stages


def test_a_running_worker_is_well_and_waits_for_nothing(tmp_path: Path) -> None:
    group = Group(tmp_path)
    with group.cluster:
        try:
            group.produce(1)
            a = group.member("a")
            wait_for(lambda: group.put_out == 40, "the counts")
            running = [s for s in list(a.snapshots) if s.health.state == "RUNNING"]
        finally:
            group.end()
    well = running[-1].health
    assert well.generation >= 1
    assert well.linked
    assert well.waiting == ()
    assert well.heartbeat_age_ms < 10_000
