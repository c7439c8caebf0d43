"""The table of settings.

A field of ``Settings`` is a row: ``num_standby_replicas`` is ``num.standby.replicas``. Reading,
checking and the page for people work from the rows: a setting is added here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, Self

import attrs

from streamlet.absent import explains_misuse
from streamlet.config import relations, sources
from streamlet.config.http_rows import HTTP_GROUP, HttpSettings
from streamlet.config.memory_rows import MemorySettings
from streamlet.config.optimizations import optimizations
from streamlet.config.row import Row, row
from streamlet.config.values import (
    boolean,
    choice,
    duration,
    folder,
    fraction,
    optional,
    pairs,
    positive,
    reference,
    servers,
    static_id,
    topic,
    whole,
    words,
)
from streamlet.errors import ConfigError
from streamlet.own_files import user_folder

ClientKind = Literal[
    "consumer", "main.consumer", "restore.consumer", "global.consumer", "producer", "admin", "group"
]

#: Makes the fields of a group of settings.
_connection = partial(row, "connection")
_rebalancing = partial(row, "rebalancing")
_membership = partial(row, "membership")
_processing = partial(row, "processing")
_state = partial(row, "state")
_internal_topics = partial(row, "internal topics")
_metrics = partial(row, "metrics")
_tracing = partial(row, "tracing")
#: The groups of rows that come last on the page, in this order.
_LAST_GROUPS = {HTTP_GROUP: 1, "tracing": 2}


@explains_misuse
@attrs.frozen(hash=False)
class Settings(MemorySettings, HttpSettings):
    """All settings of an application, checked. Durations are ms, sizes bytes.

    ``settings.num_standby_replicas`` and ``settings["num.standby.replicas"]`` are the same.
    """

    bootstrap_servers: str = _connection(servers(), "localhost:9092", "Brokers to ask first.")
    kafka_client: Literal["auto", "native", "python"] = _connection(
        choice("auto", "native", "python"),
        "auto",
        "What moves the records of a worker: `native` is an extension of streamlet over the same "
        "librdkafka that moves columns, and takes less time, if it was built "
        "(`streamlet --version --verbose` tells); `python` is confluent-kafka's client, which is "
        "taken where there is no `native` or where it cannot do what is set; `auto` is `native`, "
        "without a warning where it is not there. On Spark no effect.",
    )

    stream_rebalancing_mode: Literal["incremental", "eager", "upgrading"] = _rebalancing(
        choice("incremental", "eager", "upgrading"),
        "incremental",
        "`incremental`: only tasks that move stop, and state is warm before they do. `eager`: "
        "everything stops in each rebalance. `upgrading`: readable by every Kafka tool, and "
        "incremental as soon as all members can.",
    )
    rebalance_protocol: Literal["eager", "cooperative"] = _rebalancing(
        choice("eager", "cooperative"),
        "eager",
        "How a plain `streamlet.Consumer` gives up partitions; streams do not use it.",
    )
    learner_handover: Literal["release", "surrender"] = _rebalancing(
        choice("release", "surrender"),
        "release",
        "`release`: the owner goes on until the learner is ready, then hands over once. "
        "`surrender`: the owner gives the task up at every join and may get it back.",
    )
    learner_partial_rebalance: bool = _rebalancing(
        boolean(),
        True,
        "Hand over each learner as it becomes ready, instead of all of a member together.",
    )
    learner_ready_linger_ms: int = _rebalancing(
        duration(), 50, "Learners that become ready within this time share a rebalance."
    )
    acceptable_recovery_lag: int = _rebalancing(
        whole(),
        10_000,
        "A copy is ready when each of its changelog partitions lags by no more records than this.",
    )
    max_learners_per_member: int = _rebalancing(
        whole(1), 4, "Tasks that one member learns at a time."
    )
    max_learners_per_source: int = _rebalancing(
        whole(1), 8, "Tasks of one member that others learn at a time."
    )
    max_learners_per_group: int = _rebalancing(
        whole(1), 64, "Tasks that are learned at a time, all in all."
    )
    max_moves_per_rebalance: int = _rebalancing(
        whole(), 0, "Most tasks that one rebalance moves; 0 is all of them."
    )
    rebalance_move_interval_ms: int = _rebalancing(
        duration(), 0, "Pause between rebalances that each move a part."
    )
    scheduled_rebalance_max_delay_ms: int = _rebalancing(
        duration(),
        0,
        "How long the tasks of a lost member wait for its return, if no member has a copy that is "
        "caught up.",
    )
    initial_assignment_delay_ms: int = _rebalancing(
        duration(), 0, "How long the first member waits for others to join."
    )
    handover_timeout_ms: int = _rebalancing(
        duration(1), 10_000, "When a hand-over that does not proceed is planned again."
    )
    stream_imbalance_percentage: float = _rebalancing(
        fraction(zero=True),
        0.2,
        "How far the load of an instance may be from its share before tasks move; a fraction.",
    )
    instance_capacity: float | None = _rebalancing(
        optional(positive()),
        None,
        "The share of load the instance takes, relative to others.",
        "the number of its members",
    )
    instance_tags: Mapping[str, str] = _rebalancing(
        pairs(), dict, "Where the instance is, for spreading standbys.", "none"
    )
    rack_aware_assignment_tags: tuple[str, ...] = _rebalancing(
        words(), (), "Tags in which standbys should differ from their active task."
    )
    num_standby_replicas: int = _rebalancing(whole(), 0, "Standing copies of each stateful task.")
    scale_down_timeout_ms: int | None = _rebalancing(
        optional(duration(), "infinite"),
        None,
        "How long a leaving instance waits for ready learners before its tasks go unready.",
        "infinite",
    )

    session_timeout_ms: int = _membership(
        duration(1), 10_000, "Without a heartbeat for so long a member counts as dead."
    )
    heartbeat_interval_ms: int = _membership(
        duration(1), 250, "Pause between heartbeats; also how fast a member learns of a rebalance."
    )
    rebalance_timeout_ms: int = _membership(
        duration(1), 60_000, "How long the group waits for a member to rejoin."
    )
    max_poll_interval_ms: int = _membership(
        duration(1), 300_000, "A worker that makes no progress for so long leaves the group."
    )
    group_instance_id: str | None = _membership(
        optional(static_id()),
        None,
        "Static id of the instance: a restart within the session timeout moves nothing.",
    )

    processing_guarantee: Literal["at_least_once", "exactly_once"] = _processing(
        choice("at_least_once", "exactly_once", aliases={"exactly_once_v2": "exactly_once"}),
        "at_least_once",
        "What holds when something crashes: state is exact under both, outputs are under "
        "`exactly_once`, see [exactness](operations/exactness.md). A `streamlet.Consumer` with it "
        "reads committed records only.",
    )
    repartition_exact: bool = _processing(
        boolean(),
        True,
        "Whether state behind repartition topics counts each record once, whatever crashes. "
        "Records there bear a prefix for that, once all instances run a version that can read it. "
        "On Spark no effect: its state is exact by its checkpoint.",
    )
    repartition_commit_interval_ms: int = _processing(
        duration(),
        100,
        "Pause between commits of tasks whose records in repartition topics wait for their commit: "
        "about as long such records wait. On Spark no effect: nothing waits there.",
    )
    commit_interval_ms: int = _processing(duration(), 1_000, "Pause between commits.")
    transaction_timeout_ms: int = _processing(
        duration(1), 60_000, "After it the broker aborts an open transaction."
    )
    max_task_idle_ms: int = _processing(
        duration(off=-1),
        0,
        "How long a task with several inputs waits for more of one that it has read to its end, to "
        "keep the order of time. It waits for what is known to be there in any case; with -1 it "
        "waits for nothing.",
    )
    buffered_records_per_partition: int = _processing(
        whole(1), 10_000, "Records read ahead per input partition."
    )
    auto_offset_reset: Literal["earliest", "latest", "none"] = _processing(
        choice("earliest", "latest", "none"),
        "earliest",
        "Where to begin in a topic without a committed position; `none` fails.",
    )
    metadata_max_age_ms: int = _processing(
        duration(1), 300_000, "How often the leader looks for new partitions."
    )
    log_summary_interval_ms: int = _processing(
        duration(off=-1), 120_000, "How often a worker logs what it did; -1: never."
    )
    ensure_explicit_internal_resource_naming: bool = _processing(
        boolean(),
        False,
        "Refuse made-up names of stores and repartition topics, which move with changes above.",
    )
    processor_wrapper: str | None = _processing(
        optional(reference()),
        None,
        "A [hook around nodes](reference/processors.md#hooks-around-nodes), or its class.",
    )
    errors_dead_letter_queue_topic_name: str | None = _processing(
        optional(topic()),
        None,
        "Where records go that fail, in place of the end of the worker, as by "
        '`on_error=("dead_letter", TOPIC)`; not where the program gives another answer.',
    )
    topology_optimization: tuple[str, ...] = _processing(
        optimizations(),
        (),
        "Which topics and stores a topology does without; results stay the same. "
        "`reuse.ktable.source.topics` is always on. `streamlet describe` shows what it changes; "
        "with state, see docs/operations/upgrading.md first.",
        "none",
    )

    state_dir: Path = _state(  # noqa: RUF009 - it makes an attrs field, not a shared default
        folder(), partial(user_folder, "data"), "Where state is kept.", "the user's data folder"
    )
    state_cleanup_delay_ms: int = _state(
        duration(),
        600_000,
        "How long an unused copy stays on disk; longer while others have too few.",
    )
    state_cleanup_dir_max_age_ms: int = _state(
        duration(1, off=-1),
        -1,
        "How long state on disk may lie unused before an instance that starts deletes it, and "
        "restores it from changelogs; -1: for ever. Stores without a changelog stay.",
    )
    state_mismatch_policy: Literal["fail", "continue", "reset"] = _state(
        choice("fail", "continue", "reset"),
        "fail",
        "What to do with a task whose committed positions, changelogs and local state disagree: "
        "stop the instance; keep the newest state and go on at the positions it belongs to; or "
        "drop the task's state and begin by auto.offset.reset.",
    )
    task_timeout_ms: int = _state(
        duration(1),
        300_000,
        "How long a task may stand still because its stores cannot be used (a full disk, a dead "
        "one), before other instances are to run the tasks with state of this one.",
    )
    restore_max_share: float = _state(
        fraction(zero=False),
        0.2,
        "Share of a worker's time for learners and standbys while it has active tasks; a fraction. "
        "A task of its own that is restored is not held back.",
    )

    replication_factor: int = _internal_topics(
        whole(-1), -1, "Replicas of topics streamlet makes.", "the broker's default"
    )
    repartition_purge_interval_ms: int = _internal_topics(
        duration(),
        30_000,
        "Pause between deletions of records that are not needed any more: those of repartition "
        "topics that were read, and what changelogs hold of expired rows.",
    )

    metrics_recording_level: Literal["info", "debug"] = _metrics(
        choice("info", "debug"),
        "info",
        "With `debug` RocksDB keeps statistics, and what its block cache and its memtables found "
        "[is told](metrics.md); it costs a part of each read and write of the disk.",
    )

    tracing_enabled: bool = _tracing(
        boolean(),
        False,
        "[Spans](tracing.md) of what becomes of records, by OpenTelemetry; needs the extra `otel`. "
        "Exporter, sampler, limits and resource are those of the `OTEL_*` variables, or of the "
        "provider that the program sets. `App(tracer_provider=)` turns them on, too.",
    )
    tracing_rows: int = _tracing(
        whole(),
        0,
        "Rows of each store of a task that keep the [context](tracing.md#rows) of the record that "
        "changed them last, where the application is traced; 0: none.",
    )

    #: Keys that were given rather than left to their defaults.
    given: frozenset[str] = attrs.field(default=frozenset(), eq=False)
    # What goes to the clients may hold passwords: never printed.
    security: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    #: What they lack, a line each: a program may have a part of them, its operator the rest.
    lacking: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)
    clients: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict, repr=False)
    #: Settings of internal topics by topic; those under "" are for all topics.
    topics: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)

    @classmethod
    def load(
        cls,
        values: Mapping[str, object] | None = None,
        *,
        file: Path | sources.FileEntries | None = None,
        environ: Mapping[str, str] | None = None,
        overrides: Sequence[str | sources.Entry] = (),
    ) -> Self:
        """Settings from all sources; the source nearer to the command line wins.

        From strong to weak: ``overrides`` (``--set key=value``, or key, value and the place to name
        in a message), ``environ`` (``STREAMLET_…``), ``file`` (``--config``, a properties file),
        ``values`` (``App(config=…)``), the defaults.
        Who runs an application thus outranks who wrote it. None as a value means the default.

        Raises:
            ConfigError: every unknown key, wrong value and contradiction of all sources at once.
        """
        kinds = {key: row.kind for key, row in rows().items()}
        found = sources.read(kinds, values or {}, file, environ or {}, overrides)
        chosen = {key.replace(".", "_"): value for key, value in found.values.items()}
        settings = cls(
            **chosen,
            given=frozenset(found.values),
            security=found.security,
            lacking=tuple(found.lacking),
            clients=found.clients,
            topics=found.topics,
        )
        settings = attrs.evolve(settings, **relations.derived(settings))
        problems = [*found.problems, *relations.contradictions(settings)]
        if problems:
            raise ConfigError(problems)
        return settings

    def __getitem__(self, key: str) -> Any:
        """The value of a dotted key."""
        if key not in rows():
            raise KeyError(sources.unknown(key, rows()))
        return getattr(self, key.replace(".", "_"))

    @property
    def exactly_once(self) -> bool:
        """True if tasks commit by transactions."""
        return self.processing_guarantee == "exactly_once"

    @property
    def read_committed(self) -> bool:
        """True if records of transactions count only once these were committed."""
        given = self.clients.get("consumer", {}).get("isolation.level")
        return given == "read_committed" or self.exactly_once

    def client_config(self, kind: ClientKind) -> dict[str, Any]:
        """The properties of one kind of client: the security keys, and those given by prefix.

        ``bootstrap.servers`` is not in it. A main, restore or global consumer has what is given for
        consumers, too. ``group`` is the connection of the group membership; it has no prefix.

        Raises:
            ConfigError: settings of security lack others.
        """
        if self.lacking:
            raise ConfigError(self.lacking)
        general = self.clients.get("consumer", {}) if kind.endswith(".consumer") else {}
        return {**self.security, **general, **self.clients.get(kind, {})}


@cache
def rows() -> Mapping[str, Row]:
    """The table: dotted key to row, in the order of the page."""
    found = {
        field.name.replace("_", "."): field.metadata["row"]
        for field in attrs.fields(Settings)
        if "row" in field.metadata
    }
    return dict(sorted(found.items(), key=lambda item: _LAST_GROUPS.get(item[1].group, 0)))
