"""Every metric there is: one table, for what is exposed, for the page and for the tests.

The rule for names: Kafka Streams' group and name with dashes as underscores behind ``streamlet_``;
``stream-thread-metrics process-total`` is ``streamlet_stream_thread_process_total``. What Kafka
gives as a rate, an average and a maximum is a counter or a histogram here, in seconds, because
Prometheus makes rates and quantiles of those over any window and any group of members.
"""

from __future__ import annotations

import enum

import attrs


class MetricType(enum.StrEnum):
    """Prometheus' types that we use."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@attrs.frozen
class Metric:
    """One metric.

    Args:
        name: as exposed.
        kind: Prometheus' type.
        help: what it means, with its unit where the name does not say it.
        labels: its own, behind those that every metric has.
        kafka: Kafka's names for it, ``group:name``, each with how to get that number from ours.
    """

    name: str
    kind: MetricType
    help: str
    labels: tuple[str, ...] = ()
    kafka: tuple[tuple[str, str], ...] = ()


#: On every metric; ``member`` is empty on those of the whole instance.
COMMON_LABELS = ("application", "member")

#: Upper bounds of the histograms' buckets, seconds.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_T = "streamlet_stream_thread_"
_K = "streamlet_stream_task_"
_C = "streamlet_consumer_coordinator_"
_SKIPPED = "Records left out by the error policy, dead letters included"
_LATE = "Records left out of closed windows, once for each window"


def _latency(group: str, what: str, name: str) -> tuple[tuple[str, str], ...]:
    """Kafka's four numbers that one histogram holds."""
    return (
        (f"{group}:{what}-latency-avg", f"rate({name}_sum[1m]) / rate({name}_count[1m])"),
        (
            f"{group}:{what}-latency-max",
            f"histogram_quantile(1, rate({name}_bucket[1m]))",
        ),
        (f"{group}:{what}-rate", f"rate({name}_count[1m])"),
        (f"{group}:{what}-total", f"{name}_count"),
        (f"{group}:{what}-ratio", f"rate({name}_sum[1m])"),
    )


def _total(group: str, what: str, name: str) -> tuple[tuple[str, str], ...]:
    return (
        (f"{group}:{what}-total", name),
        (f"{group}:{what}-rate", f"rate({name}[1m])"),
    )


_THREAD = "stream-thread-metrics"
_TASK = "stream-task-metrics"
_COORDINATOR = "consumer-coordinator-metrics"

_ALL = (
    # The instance.
    Metric(
        "streamlet_info",
        MetricType.GAUGE,
        "1; the instance and its version are the labels",
        ("instance_name", "version"),
        (("stream-metrics:version", "count by (version) (streamlet_info)"),),
    ),
    Metric(
        "streamlet_stream_alive_stream_threads",
        MetricType.GAUGE,
        "Members of this instance whose process runs",
        (),
        (
            (
                "stream-metrics:alive-stream-threads",
                "streamlet_stream_alive_stream_threads",
            ),
        ),
    ),
    Metric(
        "streamlet_stream_failed_stream_threads_total",
        MetricType.COUNTER,
        "Times a member of this instance failed and was started again or given up",
        (),
        (
            (
                "stream-metrics:failed-stream-threads",
                "streamlet_stream_failed_stream_threads_total",
            ),
        ),
    ),
    # A member.
    Metric(
        _T + "state",
        MetricType.GAUGE,
        "1 for the state the member is in, 0 for the others",
        ("state",),
        ((f"{_THREAD}:thread-state", f"{_T}state == 1"), ("stream-metrics:state", f"{_T}state")),
    ),
    Metric(
        _T + "start_time_seconds",
        MetricType.GAUGE,
        "When the member began, seconds since the epoch",
        (),
        ((f"{_THREAD}:thread-start-time", f"{_T}start_time_seconds * 1000"),),
    ),
    Metric(
        _T + "poll_latency_seconds",
        MetricType.HISTOGRAM,
        "How long a poll waited for records; with nothing to read, that is its time-out",
        (),
        _latency(_THREAD, "poll", _T + "poll_latency_seconds"),
    ),
    Metric(
        _T + "poll_records_total",
        MetricType.COUNTER,
        "Records polled",
        (),
        (
            (
                f"{_THREAD}:poll-records-avg",
                f"rate({_T}poll_records_total[1m]) / rate({_T}poll_latency_seconds_count[1m])",
            ),
            ("consumer-fetch-manager-metrics:records-consumed-total", f"{_T}poll_records_total"),
        ),
    ),
    Metric(
        _T + "process_total",
        MetricType.COUNTER,
        "Records processed by all tasks the member had",
        (),
        _total(_THREAD, "process", _T + "process_total"),
    ),
    Metric(
        _T + "process_rate",
        MetricType.GAUGE,
        "Records processed per second over the last 30 s, for tools without PromQL",
        (),
        ((f"{_THREAD}:process-rate", f"{_T}process_rate"),),
    ),
    Metric(
        _T + "process_latency_seconds",
        MetricType.HISTOGRAM,
        "How long it took to process what one poll brought, and to hand on what came of it",
        (),
        (
            *_latency(_THREAD, "process", _T + "process_latency_seconds")[:2],
            (f"{_THREAD}:process-ratio", f"rate({_T}process_latency_seconds_sum[1m])"),
        ),
    ),
    Metric(
        _T + "commit_latency_seconds",
        MetricType.HISTOGRAM,
        "From the begin of a commit until the coordinator accepted it; processing goes on",
        (),
        _latency(_THREAD, "commit", _T + "commit_latency_seconds"),
    ),
    Metric(
        _T + "commit_flush_seconds_total",
        MetricType.COUNTER,
        "Seconds that processing waited for outputs and changelogs to be delivered before commits",
        (),
        (
            (
                "producer-metrics:flush-time-ns-total",
                f"{_T}commit_flush_seconds_total * 1e9",
            ),
        ),
    ),
    Metric(
        _T + "task_created_total",
        MetricType.COUNTER,
        "Tasks that began to run here",
        (),
        _total(_THREAD, "task-created", _T + "task_created_total"),
    ),
    Metric(
        _T + "task_closed_total",
        MetricType.COUNTER,
        "Tasks that ceased to run here",
        (),
        _total(_THREAD, "task-closed", _T + "task_closed_total"),
    ),
    Metric(
        _T + "out_of_range_total",
        MetricType.COUNTER,
        "Positions of running tasks that the log of their input did not hold any more, by what "
        "became of the task: it went on at the earliest or latest offset, restarted from its "
        "commit, or halted (auto.offset.reset is none)",
        ("outcome",),
    ),
    Metric(
        _T + "store_failures_total",
        MetricType.COUNTER,
        "Errors of stores (damaged files, a full disk) that had a task restored from its commit",
    ),
    Metric(
        _T + "dropped_records_total",
        MetricType.COUNTER,
        "Records left out by rule (no key, a negative time) by all tasks the member had",
    ),
    Metric(_T + "late_records_total", MetricType.COUNTER, _LATE),
    Metric(_T + "skipped_records_total", MetricType.COUNTER, _SKIPPED),
    Metric(
        _T + "dead_lettered_records_total",
        MetricType.COUNTER,
        "Records written to the topic of dead letters",
    ),
    Metric(
        _T + "tasks",
        MetricType.GAUGE,
        "Tasks of the member by role: active, pending, learner, standby",
        ("role",),
        (
            ("stream-state-updater-metrics:standby-updating-tasks", f'{_T}tasks{{role="standby"}}'),
            (
                "stream-state-updater-metrics:active-restoring-tasks",
                f'count({_K}info{{role="active",stage="opening"}}) or vector(0)',
            ),
        ),
    ),
    # Its membership.
    Metric(
        _C + "rebalance_total",
        MetricType.COUNTER,
        "Rebalances the member took part in",
        (),
        (
            (f"{_COORDINATOR}:rebalance-total", f"{_C}rebalance_total"),
            (f"{_COORDINATOR}:rebalance-rate-per-hour", f"rate({_C}rebalance_total[1h]) * 3600"),
        ),
    ),
    Metric(
        _C + "last_rebalance_timestamp_seconds",
        MetricType.GAUGE,
        "When the member applied its last assignment, seconds since the epoch; 0 before the first",
        (),
        (
            (
                f"{_COORDINATOR}:last-rebalance-seconds-ago",
                f"time() - {_C}last_rebalance_timestamp_seconds",
            ),
        ),
    ),
    Metric(
        _C + "last_heartbeat_timestamp_seconds",
        MetricType.GAUGE,
        "When the last answered heartbeat was sent, seconds since the epoch",
        (),
        (
            (
                f"{_COORDINATOR}:last-heartbeat-seconds-ago",
                f"time() - {_C}last_heartbeat_timestamp_seconds",
            ),
        ),
    ),
    Metric(
        _C + "lost_total",
        MetricType.COUNTER,
        "Times the member lost its tasks with its membership",
    ),
    Metric(
        "streamlet_consumer_last_poll_timestamp_seconds",
        MetricType.GAUGE,
        "When the member's loop last reported, seconds since the epoch",
        (),
        (
            (
                "consumer-metrics:last-poll-seconds-ago",
                "time() - streamlet_consumer_last_poll_timestamp_seconds",
            ),
        ),
    ),
    Metric(
        "streamlet_group_generation",
        MetricType.GAUGE,
        "Generation of the last assignment; -1 while the member is not in the group",
    ),
    Metric(
        "streamlet_group_info",
        MetricType.GAUGE,
        "1; the rebalancing mode the member is set to is the label",
        ("mode",),
    ),
    # Tasks.
    Metric(
        _K + "info",
        MetricType.GAUGE,
        "1 for each task of the member. Stages of active: opening, running, stopped; of pending: "
        "waiting; of learner: learning, ready; of standby: following",
        ("task", "role", "stage"),
    ),
    Metric(
        _K + "process_total",
        MetricType.COUNTER,
        "Records processed since the task began to run here",
        ("task",),
        _total(_TASK, "process", _K + "process_total"),
    ),
    Metric(
        _K + "dropped_records_total",
        MetricType.COUNTER,
        "Records left out by rule since the task began to run here",
        ("task",),
        _total(_TASK, "dropped-records", _K + "dropped_records_total"),
    ),
    Metric(_K + "late_records_total", MetricType.COUNTER, _LATE, ("task",)),
    Metric(
        _K + "skipped_records_total",
        MetricType.COUNTER,
        "Records left out by the error policy since the task began to run here",
        ("task",),
    ),
    Metric(
        _K + "repetitions_dropped_total",
        MetricType.COUNTER,
        "Records of exact repartition topics that did not count: replay (had been applied), gap "
        "(comes again behind one that is missing), zombie (of a source since set back)",
        ("task", "kind"),
    ),
    Metric(
        _K + "active_buffered_records",
        MetricType.GAUGE,
        "Records polled that wait for another input partition of the task",
        ("task",),
        ((f"{_TASK}:active-buffer-count", f"{_K}active_buffered_records"),),
    ),
    Metric(
        _K + "calls_in_flight",
        MetricType.GAUGE,
        "Records at map_values_async whose call has not ended, or whose result has not gone on",
        ("task",),
    ),
    Metric(
        _K + "dirty_bytes",
        MetricType.GAUGE,
        "Estimate of the memory that the next commit frees",
        ("task",),
    ),
    Metric(
        "streamlet_consumer_fetch_manager_records_lag",
        MetricType.GAUGE,
        "Records of an input partition that its task has not processed",
        ("task", "topic", "partition"),
        (
            (
                "consumer-fetch-manager-metrics:records-lag",
                "streamlet_consumer_fetch_manager_records_lag",
            ),
            (
                "consumer-fetch-manager-metrics:records-lag-max",
                "max by (application, member) (streamlet_consumer_fetch_manager_records_lag)",
            ),
        ),
    ),
    Metric(
        "streamlet_global_table_records_lag",
        MetricType.GAUGE,
        "Records of a global table's partition that the member's copy lacks",
        ("topic", "partition"),
    ),
    Metric(
        _K + "copy_lag",
        MetricType.GAUGE,
        "Changelog records that a copy (learner, standby, pending) lacks",
        ("task", "role"),
        (("KafkaStreams.allLocalStorePartitionLags()", f"{_K}copy_lag"),),
    ),
    Metric(
        _K + "restore_total",
        MetricType.COUNTER,
        "Changelog records read to bring a store up, before its task runs",
        ("task", "store"),
        _total(_TASK, "restore", _K + "restore_total"),
    ),
    Metric(
        _K + "restore_remaining_records",
        MetricType.GAUGE,
        "Changelog records still to read before the task runs",
        ("task", "store"),
        ((f"{_TASK}:restore-remaining-records-total", f"{_K}restore_remaining_records"),),
    ),
    Metric(
        _K + "restore_rate",
        MetricType.GAUGE,
        "Changelog records read per second since the restore of the store began",
        ("task", "store"),
        (
            (
                "stream-state-updater-metrics:restore-records-rate",
                f"sum by (application, member) ({_K}restore_rate)",
            ),
        ),
    ),
    # The application, reported by the member that leads its group.
    Metric(
        "streamlet_advised_instances",
        MetricType.GAUGE,
        "Instances the application needs, as `streamlet status --advice` has it",
    ),
    Metric(
        "streamlet_current_instances",
        MetricType.GAUGE,
        "Instances the application has, without those that are leaving",
    ),
    Metric(
        "streamlet_application_input_lag",
        MetricType.GAUGE,
        "Records between commit and end of all partitions the application has committed",
    ),
    Metric(
        "streamlet_application_input_lag_per_second",
        MetricType.GAUGE,
        "How that lag moves, records per second over the last five minutes at most",
    ),
    # Moves.
    Metric(
        "streamlet_handover_release_seconds",
        MetricType.HISTOGRAM,
        "Owner's side of a hand-over: from the task's last record to the accepted mark",
    ),
    Metric(
        "streamlet_handover_activate_seconds",
        MetricType.HISTOGRAM,
        "New owner's side: from seeing the mark until the task processes",
    ),
    Metric(
        _K + "activate_seconds",
        MetricType.HISTOGRAM,
        "From being given a task outright until it processes, restore included",
    ),
)

#: By name, in the order of the page.
METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
