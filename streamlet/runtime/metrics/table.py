"""Every metric there is: one table, for what is exposed, for the page and for the tests.

The rule for names: Kafka Streams' group and name with dashes as underscores behind ``streamlet_``;
``stream-thread-metrics process-total`` is ``streamlet_stream_thread_process_total``. What Kafka
gives as a rate, an average and a maximum is a counter or a histogram here, in seconds, because
Prometheus makes rates and quantiles of those over any window and any group of members.

A row says what a metric means and where a member has its value.
"""

from __future__ import annotations

from streamlet.runtime.metrics.metric import Metric, counter, gauge, histogram
from streamlet.runtime.metrics.state_metrics import STATE_METRICS
from streamlet.runtime.metrics.topic_metrics import TOPIC_METRICS

#: On every metric; ``member`` is empty on those of the whole instance.
COMMON_LABELS = ("application", "member")

#: Kafka Streams' states of a thread, as the worker has them.
STATES = ("CREATED", "REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING", "ERROR")
#: Outcomes for a task whose log does not hold its position: ``tasks.task_failures``.
OUTCOMES = ("earliest", "latest", "by_duration", "restarted", "halted")

_T = "streamlet_stream_thread_"
_K = "streamlet_stream_task_"
_C = "streamlet_consumer_coordinator_"
_LAG = "streamlet_consumer_fetch_manager_records_lag"
_SKIPPED = "Records left out by the error policy, dead letters included"
_LATE = "Records left out of closed windows, once for each window"

_ALL = (
    # The instance; ``exposition`` has their values.
    gauge(
        "streamlet_info",
        "1; the instance and its version are the labels",
        ("instance_name", "version"),
    ),
    gauge("streamlet_stream_alive_stream_threads", "Members of this instance whose process runs"),
    counter(
        "streamlet_stream_failed_stream_threads_total",
        "Times a member of this instance failed and was started again or given up",
    ),
    # A member.
    gauge(
        _T + "state",
        "1 for the state the member is in, 0 for the others",
        ("state",),
        lambda m: {(state,): float(state == m.state) for state in STATES},
    ),
    gauge(
        _T + "start_time_seconds",
        "When the member began, seconds since the epoch",
        of=lambda m: m.meters.started_wall_ms / 1000,
    ),
    histogram(
        _T + "poll_latency_seconds",
        "How long a poll waited for records; with nothing to read, that is its time-out",
        of=lambda m: m.meters.poll.value(),
    ),
    counter(_T + "poll_records_total", "Records polled", of=lambda m: m.counted.records),
    counter(
        _T + "process_total",
        "Records processed by all tasks the member had",
        of=lambda m: m.processed,
    ),
    gauge(
        _T + "process_rate",
        "Records processed per second over the last 30 s, for tools without PromQL",
        of=lambda m: m.meters.process_rate.add(m.meters.clock.now_ms(), m.processed),
    ),
    histogram(
        _T + "process_latency_seconds",
        "How long it took to process what one poll brought, and to hand on what came of it",
        of=lambda m: m.meters.process.value(),
    ),
    histogram(
        _T + "commit_latency_seconds",
        "From the begin of a commit until the coordinator accepted it; processing goes on",
        of=lambda m: m.meters.commit.value(),
    ),
    counter(
        _T + "commit_flush_seconds_total",
        "Seconds that processing waited for outputs and changelogs to be delivered before commits",
        of=lambda m: m.flush_ns / 1e9,
    ),
    counter(
        _T + "task_created_total", "Tasks that began to run here", of=lambda m: m.meters.created
    ),
    counter(
        _T + "task_closed_total", "Tasks that ceased to run here", of=lambda m: m.meters.closed
    ),
    counter(
        _T + "out_of_range_total",
        "Positions of running tasks that the log of their input did not hold any more, by what "
        "became of the task: it went on at the earliest or latest offset or at a time before now, "
        "restarted from its commit, or halted (auto.offset.reset is none)",
        ("outcome",),
        lambda m: {(outcome,): m.meters.out_of_range[outcome] for outcome in OUTCOMES},
    ),
    counter(
        _T + "misplaced_records_total",
        "Records among the first 1,000 with a key of each partition that do not lie where the "
        "topic's partitioner puts them, where that matters, by topic",
        ("topic",),
        lambda m: {(topic,): count for topic, count in m.meters.misplaced.items()},
    ),
    counter(
        _T + "store_failures_total",
        "Errors of stores (damaged files, a full disk) that had a task restored from its commit",
        of=lambda m: m.meters.store_failures,
    ),
    counter(
        _T + "dropped_records_total",
        "Records left out by rule (no key, a negative time) by all tasks the member had",
        of=lambda m: m.counted.dropped,
    ),
    counter(_T + "late_records_total", _LATE, of=lambda m: m.counted.late),
    counter(_T + "skipped_records_total", _SKIPPED, of=lambda m: m.counted.skipped),
    counter(
        _T + "dead_lettered_records_total",
        "Records written to the topic of dead letters",
        of=lambda m: m.counted.dead_lettered,
    ),
    gauge(
        _T + "tasks",
        "Tasks of the member by role: active, pending, learner, standby",
        ("role",),
        lambda m: m.tasks_by_role,
    ),
    counter(
        _C + "rebalance_total",
        "Rebalances the member took part in",
        of=lambda m: m.meters.rebalances,
    ),
    gauge(
        _C + "last_rebalance_timestamp_seconds",
        "When the member applied its last assignment, seconds since the epoch; 0 before the first",
        of=lambda m: m.meters.last_rebalance_wall_ms / 1000,
    ),
    gauge(
        _C + "last_heartbeat_timestamp_seconds",
        "When the last answered heartbeat was sent, seconds since the epoch",
        of=lambda m: (m.meters.clock.wall_ms() - m.heartbeat_age_ms) / 1000,
    ),
    counter(
        _C + "lost_total",
        "Times the member lost its tasks with its membership",
        of=lambda m: m.meters.lost,
    ),
    gauge(
        "streamlet_consumer_last_poll_timestamp_seconds",
        "When the member's loop last reported, seconds since the epoch",
        of=lambda m: m.meters.clock.wall_ms() / 1000,
    ),
    gauge(
        "streamlet_group_generation",
        "Generation of the last assignment; -1 while the member is not in the group",
        of=lambda m: m.standing.view.generation,
    ),
    gauge(
        "streamlet_group_info",
        "1; the rebalancing mode the member is set to is the label",
        ("mode",),
        lambda m: {(m.mode,): 1},
    ),
    *TOPIC_METRICS,
    *STATE_METRICS,
    # Tasks.
    gauge(
        _K + "info",
        "1 for each task of the member. Stages of active: opening, running, stopped; of pending: "
        "waiting; of learner: learning, ready; of standby: following",
        ("task", "role", "stage"),
        lambda m: {(str(task), *role): 1 for task, role in m.roles.items()},
    ),
    counter(
        _K + "process_total",
        "Records processed since the task began to run here",
        ("task",),
        of_task=lambda task: task.counters.records,
    ),
    counter(
        _K + "dropped_records_total",
        "Records left out by rule since the task began to run here",
        ("task",),
        of_task=lambda task: task.counters.dropped,
    ),
    counter(_K + "late_records_total", _LATE, ("task",), of_task=lambda task: task.counters.late),
    counter(
        _K + "skipped_records_total",
        "Records left out by the error policy since the task began to run here",
        ("task",),
        of_task=lambda task: task.counters.skipped,
    ),
    counter(
        _K + "repetitions_dropped_total",
        "Records of exact repartition topics that did not count: replay (had been applied), gap "
        "(comes again behind one that is missing), zombie (of a source since set back), "
        "beyond (with an origin that no record can have), uncommitted (written for a commit that "
        "never was), forged (not written by the task that it names)",
        ("task", "kind"),
        lambda m: m.repetitions,
    ),
    gauge(
        _K + "held_records",
        "Records of repartition topics that wait for the commit of the task that wrote them",
        ("task",),
        of_task=lambda task: None if task.edges is None else task.edges.waiting,
    ),
    histogram(
        _K + "held_seconds",
        "Waits of such records, from when they were read",
        ("task", "topic"),
        lambda m: m.held_waits,
    ),
    counter(
        _K + "markers_total",
        "Markers written to tell that a commit was accepted, where no record tells it soon",
        ("task",),
        of_task=lambda task: None if task.edges is None else task.edges.markers,
    ),
    gauge(
        _K + "active_buffered_records",
        "Records polled that wait for another input partition of the task",
        ("task",),
        of_task=lambda task: sum(task.buffered().values()),
    ),
    gauge(
        _K + "calls_in_flight",
        "Records at map_values_async whose result has not gone on, or that wait at map_batches",
        ("task",),
        of_task=lambda task: None if task.calls is None else task.calls.in_flight,
    ),
    gauge(
        _K + "dirty_bytes",
        "Estimate of the memory that the next commit frees",
        ("task",),
        of_task=lambda task: task.state.dirty_bytes(),
    ),
    gauge(
        _LAG,
        "Records of an input partition that its task has not processed",
        ("task", "topic", "partition"),
        lambda m: m.input_lags,
    ),
    gauge(
        "streamlet_global_table_records_lag",
        "Records of a global table's partition that the member's copy lacks",
        ("topic", "partition"),
        lambda m: {(tp.topic, str(tp.partition)): lag for tp, lag in m.global_lags.items()},
    ),
    gauge(
        _K + "copy_lag",
        "Changelog records that a copy (learner, standby, pending) lacks",
        ("task", "role"),
        lambda m: {(str(task), role): lag for task, (role, lag) in m.lags.items()},
    ),
    counter(
        _K + "restore_total",
        "Changelog records read to bring a store up, before its task runs",
        ("task", "store"),
        lambda m: m.restores(lambda store: store.restored),
    ),
    gauge(
        _K + "restore_remaining_records",
        "Changelog records still to read before the task runs",
        ("task", "store"),
        lambda m: m.restores(lambda store: store.remaining),
    ),
    gauge(
        _K + "restore_rate",
        "Changelog records read per second since the restore of the store began",
        ("task", "store"),
        lambda m: m.restores(lambda store: store.rate if store.remaining else 0.0),
    ),
    # The application, reported by the member that leads its group.
    gauge(
        "streamlet_advised_instances",
        "Instances the application needs, as `streamlet status --advice` has it",
        of=lambda m: m.advised("instances"),
    ),
    gauge(
        "streamlet_current_instances",
        "Instances the application has, without those that are leaving",
        of=lambda m: m.advised("current"),
    ),
    gauge(
        "streamlet_application_input_lag",
        "Records between commit and end of all partitions the application has committed",
        of=lambda m: m.advised("lag"),
    ),
    gauge(
        "streamlet_application_input_lag_per_second",
        "How that lag moves, records per second over the last five minutes at most",
        of=lambda m: m.advised("lag_per_s"),
    ),
    gauge(
        "streamlet_application_unread_records",
        "Records in partitions of the inputs that no task reads; not part of that lag",
        of=lambda m: m.advised("unread"),
    ),
    # Moves.
    histogram(
        "streamlet_handover_release_seconds",
        "Owner's side of a hand-over: from the task's last record to the accepted mark",
        of=lambda m: m.meters.release.value(),
    ),
    histogram(
        "streamlet_handover_activate_seconds",
        "New owner's side: from seeing the mark until the task processes",
        of=lambda m: m.meters.activate_marked.value(),
    ),
    histogram(
        _K + "activate_seconds",
        "From being given a task outright until it processes, restore included",
        of=lambda m: m.meters.activate_outright.value(),
    ),
)

#: By name, in the order of the page.
METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
