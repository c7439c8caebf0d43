"""The topics streamlet makes for a topology, with their settings."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import attrs

from streamlet.errors import ConfigError
from streamlet.kafka.ports import NewTopic
from streamlet.topology.graph import Topology
from streamlet.topology.names import changelog_name
from streamlet.user_code import listed

#: One hour. A record of a stale owner may be the last of its key in a changelog; as long as
#: compaction does not run, the good one below it is still there for the next owner to find.
MIN_COMPACTION_LAG_MS = 3_600_000

#: 50 MiB, as in Kafka Streams: small enough that purged records leave the disk soon.
PURGED_SEGMENT_BYTES = 52_428_800

#: Records keep the times they are written with, whatever these are and the broker's defaults say.
TIME_CONFIG = (
    ("message.timestamp.type", "CreateTime"),
    ("message.timestamp.after.max.ms", str((1 << 63) - 1)),
    ("message.timestamp.before.max.ms", str((1 << 63) - 1)),
)

CHANGELOG_CONFIG = (
    *TIME_CONFIG,
    ("cleanup.policy", "compact"),
    ("min.compaction.lag.ms", str(MIN_COMPACTION_LAG_MS)),
)

#: Records go when they were committed (the worker deletes them), never by age.
REPARTITION_CONFIG = (
    *TIME_CONFIG,
    ("cleanup.policy", "delete"),
    ("retention.ms", "-1"),
    ("segment.bytes", str(PURGED_SEGMENT_BYTES)),
)

#: Those of stores whose rows expire: their owner deletes what is about expired rows. A broker
#: refuses that without the policy "delete", which must delete nothing by itself.
PURGING_CONFIG = (
    ("cleanup.policy", "compact,delete"),
    ("retention.bytes", "-1"),
    ("retention.ms", "-1"),
)

EXPIRING_CHANGELOG_CONFIG = (
    *dict((*CHANGELOG_CONFIG, *PURGING_CONFIG)).items(),
    ("segment.bytes", str(PURGED_SEGMENT_BYTES)),
)


#: Settings of internal topics by topic; those under "" are for all topics.
Given = Mapping[str, Mapping[str, str]]


def internal_topics(
    topology: Topology,
    source_counts: Mapping[str, int],
    replication: int = -1,
    given: Given | None = None,
) -> tuple[NewTopic, ...]:
    """All topics to create before the topology runs, repartition topics first.

    A changelog has as many partitions as its subtopology has tasks. ``replication`` -1 leaves the
    factor to the broker. ``given`` is added to the settings that streamlet decides.

    Raises:
        ConfigError: a setting is given for a topic that is none of these.
        TopologyError: as ``Topology.partition_counts``.
        MissingTopicError: as ``Topology.partition_counts``.
    """
    given = given or {}
    counts = topology.partition_counts(source_counts)
    repartitions = {name: counts[name] for name in topology.repartition_topics}
    changelogs = {
        name: part.task_count(counts)
        for part in topology.subtopologies
        for name in part.changelog_topics
    }
    expiring = expiring_changelogs(topology)
    _check_given(topology.application, given, {**repartitions, **changelogs})

    def topic(name: str, count: int, own: tuple[tuple[str, str], ...]) -> NewTopic:
        config = {**dict(own), **given_for(name, given)}
        return NewTopic(name, count, replication, tuple(config.items()))

    return (
        *(topic(name, count, REPARTITION_CONFIG) for name, count in repartitions.items()),
        *(
            topic(name, count, EXPIRING_CHANGELOG_CONFIG if name in expiring else CHANGELOG_CONFIG)
            for name, count in changelogs.items()
        ),
    )


def known_settings(
    topics: Sequence[NewTopic], existing: Mapping[str, Mapping[str, str]]
) -> list[NewTopic]:
    """Topics without the limits of times that brokers before Kafka 3.6 do not know.

    ``existing`` are all settings of topics that exist; without any the settings stay as they are.
    """
    known = {name for settings in existing.values() for name in settings}
    if not known >= {"cleanup.policy", "max.message.bytes", "message.timestamp.type"}:
        return list(topics)
    unknown = {name for name, _ in TIME_CONFIG} - known
    return [
        attrs.evolve(topic, config=tuple(one for one in topic.config if one[0] not in unknown))
        for topic in topics
    ]


def changelog_topics(topology: Topology) -> tuple[str, ...]:
    """The changelogs that streamlet makes for the topology, in order of their stores."""
    return tuple(topic for part in topology.subtopologies for topic in part.changelog_topics)


def expiring_changelogs(topology: Topology) -> frozenset[str]:
    """The changelogs of stores whose rows expire."""
    return frozenset(
        changelog_name(topology.application, spec.name)
        for part in topology.subtopologies
        for spec in part.stores
        if spec.logged and spec.window is not None and spec.window.retention_ms is not None
    )


def given_for(topic: str, given: Given) -> dict[str, str]:
    """The given settings of one topic: those for it by name override those for all."""
    return {**given.get("", {}), **given.get(topic, {})}


def _check_given(application: str, given: Given, made: Mapping[str, int]) -> None:
    problems = []
    for topic in sorted(given.keys() - made.keys() - {""}):
        close = difflib.get_close_matches(topic, made, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"it makes {listed(made) or 'none'}"
        problems += [
            f"topic.{topic}.{name}: {application} makes no internal topic {topic}, {hint}"
            for name in given[topic]
        ]
    if problems:
        raise ConfigError(problems)
