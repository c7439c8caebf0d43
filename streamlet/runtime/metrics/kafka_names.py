"""The metrics of Kafka and Kafka Streams, each with the expression of ours that has its value."""

from __future__ import annotations

#: Kafka's group and name, and an expression of Prometheus.
KAFKA_METRICS: tuple[tuple[str, str], ...] = (
    ("KafkaStreams.allLocalStorePartitionLags()", "streamlet_stream_task_copy_lag"),
    (
        "consumer-coordinator-metrics:last-heartbeat-seconds-ago",
        "time() - streamlet_consumer_coordinator_last_heartbeat_timestamp_seconds",
    ),
    (
        "consumer-coordinator-metrics:last-rebalance-seconds-ago",
        "time() - streamlet_consumer_coordinator_last_rebalance_timestamp_seconds",
    ),
    (
        "consumer-coordinator-metrics:partition-assigned-latency-max",
        "histogram_quantile(1, "
        "rate(streamlet_consumer_coordinator_partition_assigned_latency_seconds_bucket[1m]))",
    ),
    (
        "consumer-coordinator-metrics:rebalance-rate-per-hour",
        "rate(streamlet_consumer_coordinator_rebalance_total[1h]) * 3600",
    ),
    (
        "consumer-coordinator-metrics:rebalance-total",
        "streamlet_consumer_coordinator_rebalance_total",
    ),
    (
        "consumer-fetch-manager-metrics:records-consumed-total",
        "streamlet_stream_thread_poll_records_total",
    ),
    ("consumer-fetch-manager-metrics:records-lag", "streamlet_consumer_fetch_manager_records_lag"),
    (
        "consumer-fetch-manager-metrics:records-lag-max",
        "max by (application, member) (streamlet_consumer_fetch_manager_records_lag)",
    ),
    (
        "consumer-metrics:last-poll-seconds-ago",
        "time() - streamlet_consumer_last_poll_timestamp_seconds",
    ),
    (
        "producer-metrics:flush-time-ns-total",
        "streamlet_stream_thread_commit_flush_seconds_total * 1e9",
    ),
    ("stream-metrics:alive-stream-threads", "streamlet_stream_alive_stream_threads"),
    ("stream-metrics:failed-stream-threads", "streamlet_stream_failed_stream_threads_total"),
    ("stream-metrics:state", "streamlet_stream_thread_state"),
    ("stream-metrics:version", "count by (version) (streamlet_info)"),
    (
        "stream-processor-node-metrics:process-rate",
        "rate(streamlet_stream_processor_node_process_total[1m])",
    ),
    (
        "stream-processor-node-metrics:process-total",
        "streamlet_stream_processor_node_process_total",
    ),
    (
        "stream-processor-node-metrics:record-e2e-latency-avg",
        "rate(streamlet_stream_processor_node_record_e2e_latency_seconds_sum[1m])"
        " / rate(streamlet_stream_processor_node_record_e2e_latency_seconds_count[1m])",
    ),
    (
        "stream-processor-node-metrics:record-e2e-latency-max",
        "streamlet_stream_processor_node_record_e2e_latency_max_seconds",
    ),
    ("stream-state-metrics:background-errors", "streamlet_stream_state_background_errors"),
    ("stream-state-metrics:block-cache-usage", "streamlet_stream_state_block_cache_usage_bytes"),
    ("stream-state-metrics:estimate-num-keys", "streamlet_stream_state_estimate_num_keys"),
    (
        "stream-state-metrics:estimate-pending-compaction-bytes",
        "streamlet_stream_state_estimate_pending_compaction_bytes",
    ),
    ("stream-state-metrics:get-rate", "rate(streamlet_stream_state_get_total[1m])"),
    (
        "stream-state-metrics:num-running-compactions",
        "streamlet_stream_state_num_running_compactions",
    ),
    ("stream-state-metrics:put-rate", "rate(streamlet_stream_state_put_total[1m])"),
    (
        "stream-state-metrics:size-all-mem-tables",
        "streamlet_stream_state_size_all_mem_tables_bytes",
    ),
    (
        "stream-state-metrics:total-sst-files-size",
        "streamlet_stream_state_total_sst_files_size_bytes",
    ),
    (
        "stream-state-metrics:write-stall-duration-total",
        "sum_over_time(streamlet_stream_state_write_stopped[1m])",
    ),
    (
        "stream-state-updater-metrics:active-restoring-tasks",
        'count(streamlet_stream_task_info{role="active",stage="opening"}) or vector(0)',
    ),
    (
        "stream-state-updater-metrics:restore-records-rate",
        "sum by (application, member) (streamlet_stream_task_restore_rate)",
    ),
    (
        "stream-state-updater-metrics:standby-updating-tasks",
        'streamlet_stream_thread_tasks{role="standby"}',
    ),
    ("stream-task-metrics:active-buffer-count", "streamlet_stream_task_active_buffered_records"),
    (
        "stream-task-metrics:dropped-records-rate",
        "rate(streamlet_stream_task_dropped_records_total[1m])",
    ),
    ("stream-task-metrics:dropped-records-total", "streamlet_stream_task_dropped_records_total"),
    ("stream-task-metrics:process-rate", "rate(streamlet_stream_task_process_total[1m])"),
    ("stream-task-metrics:process-total", "streamlet_stream_task_process_total"),
    ("stream-task-metrics:punctuate-total", "streamlet_stream_task_punctuate_total"),
    ("stream-task-metrics:restore-rate", "rate(streamlet_stream_task_restore_total[1m])"),
    (
        "stream-task-metrics:restore-remaining-records-total",
        "streamlet_stream_task_restore_remaining_records",
    ),
    ("stream-task-metrics:restore-total", "streamlet_stream_task_restore_total"),
    (
        "stream-thread-metrics:commit-latency-avg",
        "rate(streamlet_stream_thread_commit_latency_seconds_sum[1m])"
        " / rate(streamlet_stream_thread_commit_latency_seconds_count[1m])",
    ),
    (
        "stream-thread-metrics:commit-latency-max",
        "histogram_quantile(1, rate(streamlet_stream_thread_commit_latency_seconds_bucket[1m]))",
    ),
    (
        "stream-thread-metrics:commit-rate",
        "rate(streamlet_stream_thread_commit_latency_seconds_count[1m])",
    ),
    (
        "stream-thread-metrics:commit-ratio",
        "rate(streamlet_stream_thread_commit_latency_seconds_sum[1m])",
    ),
    ("stream-thread-metrics:commit-total", "streamlet_stream_thread_commit_latency_seconds_count"),
    (
        "stream-thread-metrics:poll-latency-avg",
        "rate(streamlet_stream_thread_poll_latency_seconds_sum[1m])"
        " / rate(streamlet_stream_thread_poll_latency_seconds_count[1m])",
    ),
    (
        "stream-thread-metrics:poll-latency-max",
        "histogram_quantile(1, rate(streamlet_stream_thread_poll_latency_seconds_bucket[1m]))",
    ),
    (
        "stream-thread-metrics:poll-rate",
        "rate(streamlet_stream_thread_poll_latency_seconds_count[1m])",
    ),
    (
        "stream-thread-metrics:poll-ratio",
        "rate(streamlet_stream_thread_poll_latency_seconds_sum[1m])",
    ),
    (
        "stream-thread-metrics:poll-records-avg",
        "rate(streamlet_stream_thread_poll_records_total[1m])"
        " / rate(streamlet_stream_thread_poll_latency_seconds_count[1m])",
    ),
    ("stream-thread-metrics:poll-total", "streamlet_stream_thread_poll_latency_seconds_count"),
    (
        "stream-thread-metrics:process-latency-avg",
        "rate(streamlet_stream_thread_process_latency_seconds_sum[1m])"
        " / rate(streamlet_stream_thread_process_latency_seconds_count[1m])",
    ),
    (
        "stream-thread-metrics:process-latency-max",
        "histogram_quantile(1, rate(streamlet_stream_thread_process_latency_seconds_bucket[1m]))",
    ),
    ("stream-thread-metrics:process-rate", "rate(streamlet_stream_thread_process_total[1m])"),
    ("stream-thread-metrics:process-rate", "streamlet_stream_thread_process_rate"),
    (
        "stream-thread-metrics:process-ratio",
        "rate(streamlet_stream_thread_process_latency_seconds_sum[1m])",
    ),
    ("stream-thread-metrics:process-total", "streamlet_stream_thread_process_total"),
    (
        "stream-thread-metrics:task-closed-rate",
        "rate(streamlet_stream_thread_task_closed_total[1m])",
    ),
    ("stream-thread-metrics:task-closed-total", "streamlet_stream_thread_task_closed_total"),
    (
        "stream-thread-metrics:task-created-rate",
        "rate(streamlet_stream_thread_task_created_total[1m])",
    ),
    ("stream-thread-metrics:task-created-total", "streamlet_stream_thread_task_created_total"),
    (
        "stream-thread-metrics:thread-start-time",
        "streamlet_stream_thread_start_time_seconds * 1000",
    ),
    ("stream-thread-metrics:thread-state", "streamlet_stream_thread_state == 1"),
    ("stream-topic-metrics:bytes-consumed-total", "streamlet_stream_topic_bytes_consumed_total"),
    ("stream-topic-metrics:bytes-produced-total", "streamlet_stream_topic_bytes_produced_total"),
    (
        "stream-topic-metrics:records-consumed-total",
        "streamlet_stream_topic_records_consumed_total",
    ),
    (
        "stream-topic-metrics:records-produced-total",
        "streamlet_stream_topic_records_produced_total",
    ),
)
