"""The metrics of Kafka and Kafka Streams, each with the expression of ours that has its value."""

from __future__ import annotations


def _rate(metric: str) -> str:
    return f"rate(@{metric}[1m])"


def _average(histogram: str) -> str:
    return f"{_rate(f'{histogram}_sum')} / {_rate(f'{histogram}_count')}"


def _highest(histogram: str) -> str:
    return f"histogram_quantile(1, {_rate(f'{histogram}_bucket')})"


def _ratio(cache: str, label: str = "") -> str:
    hits, misses = (f"rate(@{cache}_{what}_total{label}[1m])" for what in ("hits", "misses"))
    return f"{hits} / ({hits} + {misses})"


def _prefix(group: str) -> str:
    return f"streamlet_{group.removesuffix('-metrics').replace('-', '_')}_"


#: By Kafka's group: its name, and an expression of Prometheus, in which ``@`` stands for the group
#: as our names have it (``table`` has the rule).
_GROUPS: dict[str, tuple[tuple[str, str], ...]] = {
    "consumer-coordinator-metrics": (
        ("last-heartbeat-seconds-ago", "time() - @last_heartbeat_timestamp_seconds"),
        ("last-rebalance-seconds-ago", "time() - @last_rebalance_timestamp_seconds"),
        ("partition-assigned-latency-max", _highest("partition_assigned_latency_seconds")),
        ("rebalance-rate-per-hour", "rate(@rebalance_total[1h]) * 3600"),
        ("rebalance-total", "@rebalance_total"),
    ),
    "consumer-fetch-manager-metrics": (
        ("records-consumed-total", "streamlet_stream_thread_poll_records_total"),
        ("records-lag", "@records_lag"),
        ("records-lag-max", "max by (application, member) (@records_lag)"),
    ),
    "consumer-metrics": (("last-poll-seconds-ago", "time() - @last_poll_timestamp_seconds"),),
    "producer-metrics": (
        ("flush-time-ns-total", "streamlet_stream_thread_commit_flush_seconds_total * 1e9"),
    ),
    "stream-metrics": (
        ("alive-stream-threads", "@alive_stream_threads"),
        ("failed-stream-threads", "@failed_stream_threads_total"),
        ("state", "@thread_state"),
        ("version", "count by (version) (streamlet_info)"),
    ),
    "stream-processor-node-metrics": (
        ("process-rate", _rate("process_total")),
        ("process-total", "@process_total"),
        ("record-e2e-latency-avg", _average("record_e2e_latency_seconds")),
        ("record-e2e-latency-max", "@record_e2e_latency_max_seconds"),
        ("suppression-emit-rate", _rate("suppression_emit_total")),
        ("suppression-emit-total", "@suppression_emit_total"),
    ),
    "stream-state-metrics": (
        ("background-errors", "@background_errors"),
        ("block-cache-data-hit-ratio", _ratio("block_cache", '{kind="data"}')),
        ("block-cache-filter-hit-ratio", _ratio("block_cache", '{kind="filter"}')),
        ("block-cache-index-hit-ratio", _ratio("block_cache", '{kind="index"}')),
        ("block-cache-usage", "@block_cache_usage_bytes"),
        ("estimate-num-keys", "@estimate_num_keys"),
        ("estimate-pending-compaction-bytes", "@estimate_pending_compaction_bytes"),
        ("get-rate", _rate("get_total")),
        ("memtable-hit-ratio", _ratio("memtable")),
        ("num-running-compactions", "@num_running_compactions"),
        ("put-rate", _rate("put_total")),
        ("size-all-mem-tables", "@size_all_mem_tables_bytes"),
        ("suppression-buffer-count-avg", "avg_over_time(@suppression_buffer_records[1m])"),
        ("suppression-buffer-count-max", "max_over_time(@suppression_buffer_records[1m])"),
        ("suppression-buffer-size-avg", "avg_over_time(@suppression_buffer_size_bytes[1m])"),
        ("suppression-buffer-size-max", "max_over_time(@suppression_buffer_size_bytes[1m])"),
        ("total-sst-files-size", "@total_sst_files_size_bytes"),
        ("write-stall-duration-total", "@write_stall_seconds_total * 1e6"),
    ),
    "stream-state-updater-metrics": (
        (
            "active-restoring-tasks",
            'count(streamlet_stream_task_info{role="active",stage="opening"}) or vector(0)',
        ),
        (
            "restore-records-rate",
            "sum by (application, member) (streamlet_stream_task_restore_rate)",
        ),
        ("standby-updating-tasks", 'streamlet_stream_thread_tasks{role="standby"}'),
    ),
    "stream-task-metrics": (
        ("active-buffer-count", "@active_buffered_records"),
        ("dropped-records-rate", _rate("dropped_records_total")),
        ("dropped-records-total", "@dropped_records_total"),
        ("process-rate", _rate("process_total")),
        ("process-total", "@process_total"),
        ("punctuate-total", "@punctuate_total"),
        ("restore-rate", _rate("restore_total")),
        ("restore-remaining-records-total", "@restore_remaining_records"),
        ("restore-total", "@restore_total"),
    ),
    "stream-thread-metrics": (
        ("commit-latency-avg", _average("commit_latency_seconds")),
        ("commit-latency-max", _highest("commit_latency_seconds")),
        ("commit-rate", _rate("commit_latency_seconds_count")),
        ("commit-ratio", _rate("commit_latency_seconds_sum")),
        ("commit-total", "@commit_latency_seconds_count"),
        ("poll-latency-avg", _average("poll_latency_seconds")),
        ("poll-latency-max", _highest("poll_latency_seconds")),
        ("poll-rate", _rate("poll_latency_seconds_count")),
        ("poll-ratio", _rate("poll_latency_seconds_sum")),
        (
            "poll-records-avg",
            "rate(@poll_records_total[1m]) / rate(@poll_latency_seconds_count[1m])",
        ),
        ("poll-total", "@poll_latency_seconds_count"),
        ("process-latency-avg", _average("process_latency_seconds")),
        ("process-latency-max", _highest("process_latency_seconds")),
        ("process-rate", _rate("process_total")),
        ("process-rate", "@process_rate"),
        ("process-ratio", _rate("process_latency_seconds_sum")),
        ("process-total", "@process_total"),
        ("task-closed-rate", _rate("task_closed_total")),
        ("task-closed-total", "@task_closed_total"),
        ("task-created-rate", _rate("task_created_total")),
        ("task-created-total", "@task_created_total"),
        ("thread-start-time", "@start_time_seconds * 1000"),
        ("thread-state", "@state == 1"),
    ),
    "stream-topic-metrics": (
        ("bytes-consumed-total", "@bytes_consumed_total"),
        ("bytes-produced-total", "@bytes_produced_total"),
        ("records-consumed-total", "@records_consumed_total"),
        ("records-produced-total", "@records_produced_total"),
    ),
}

#: Kafka's group and name, and an expression of Prometheus.
KAFKA_METRICS: tuple[tuple[str, str], ...] = (
    ("KafkaStreams.allLocalStorePartitionLags()", "streamlet_stream_task_copy_lag"),
    *(
        (f"{group}:{name}", expression.replace("@", _prefix(group)))
        for group, rows in _GROUPS.items()
        for name, expression in rows
    ),
)
