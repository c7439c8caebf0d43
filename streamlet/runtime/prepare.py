"""Checks before the first record: are the topics there, do they fit, did the topology change?

Runs in every process that starts; creating a topic that another process creates at the same moment
is not an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from streamlet.errors import MissingTopicError, TopologyError
from streamlet.kafka.ports import Admin, NewTopic
from streamlet.topology.graph import Topology
from streamlet.topology.internal_topics import (
    PURGING_CONFIG,
    Given,
    expiring_changelogs,
    given_for,
    internal_topics,
)
from streamlet.topology.moved import check_moved

log = logging.getLogger(__name__)


def prepare_topics(
    topology: Topology, admin: Admin, *, replication: int = -1, given: Given | None = None
) -> dict[str, int]:
    """Create the internal topics that are missing; partition counts of all topics of the topology.

    ``given`` are settings of internal topics, as in ``internal_topics``.

    Raises:
        ConfigError: a setting is given for a topic that the application does not make.
        BrokerError: the broker does not answer.
        MissingTopicError: a source topic does not exist.
        TopologyError: counts do not match, an unnamed store has moved, or an internal topic stems
            from another number of partitions.
    """
    existing = admin.topics()
    counts = {name: info.partitions for name, info in existing.items()}
    missing = sorted(topology.topics_with_origins - counts.keys())
    if missing:
        raise MissingTopicError(
            f"topic {missing[0]!r} is written with origins and does not exist; create it"
        )
    wanted = internal_topics(topology, counts, replication, given)
    check_moved(topology, topology.application, tuple(existing))
    for topic in wanted:
        _check_count(topology, topic, counts)
    admin.create_topics([topic for topic in wanted if topic.name not in counts])
    _allow_purging(expiring_changelogs(topology) & counts.keys(), admin)
    return {**counts, **{topic.name: topic.partitions for topic in wanted}}


def _allow_purging(changelogs: Iterable[str], admin: Admin) -> None:
    """Let records be deleted of changelogs that a version made which never deleted any."""
    found = admin.topic_settings(sorted(changelogs))
    old = [topic for topic, has in found.items() if has.get("cleanup.policy") == "compact"]
    refused = admin.alter_topics({topic: dict(PURGING_CONFIG) for topic in old})
    for topic in old:
        log.log(
            logging.WARNING if topic in refused else logging.INFO,
            "%s was made with cleanup.policy=compact, which keeps expired windows for ever; %s",
            topic,
            f"change it, with {_purging()}: {refused[topic]}"
            if topic in refused
            else f"it has {_purging()} now",
        )


def _purging() -> str:
    return ", ".join(f"{name}={value}" for name, value in PURGING_CONFIG)


def unapplied_settings(topology: Topology, admin: Admin, given: Given) -> list[str]:
    """The given settings that internal topics do not have, because they were created without.

    Raises:
        BrokerError: the broker does not answer.
    """
    if not given:
        return []
    changelogs = [name for part in topology.subtopologies for name in part.changelog_topics]
    found = admin.topic_settings([*topology.repartition_topics, *changelogs])
    return [
        f"{topic} has {name} = {has.get(name)}, and the settings say {value}"
        for topic, has in found.items()
        for name, value in given_for(topic, given).items()
        if has.get(name) != value
    ]


def deleting_tables(topology: Topology, admin: Admin) -> list[str]:
    """Of each topic of a ``table()`` that may lose rows: the setting, what it loses, what to do.

    Such a topic is the changelog of its table. A broker that deletes its records by age or size
    deletes rows that are still rows: where the table is on disk it has them, and where it is
    restored it has not.

    Raises:
        BrokerError: the broker does not answer.
    """
    stores = (spec for part in topology.subtopologies for spec in part.stores)
    tables = sorted({spec.source_topic for spec in stores if spec.source_topic is not None})
    found = admin.topic_settings(tables) if tables else {}
    return [
        f"{topic} is read as a table and has {lost}: a host that restores the table does not get "
        "them, while one with state on its disk still has them. Set cleanup.policy=compact with "
        "kafka-configs.sh"
        for topic in tables
        if (lost := _lost_rows(found.get(topic, {})))
    ]


def _lost_rows(settings: Mapping[str, str]) -> str:
    """The settings by which a broker deletes rows, and which rows; "" if it deletes none."""
    policy = settings.get("cleanup.policy", "compact")
    age, size = (settings.get(f"retention.{what}", "-1") for what in ("ms", "bytes"))
    limits = []
    if age != "-1":
        limits.append((f"retention.ms={age}", f"were not written for {age} ms"))
    if size != "-1":
        limits.append((f"retention.bytes={size}", f"lie before the last {size} bytes"))
    if "delete" not in policy or not limits:
        return ""
    names = " and ".join(name for name, _ in limits)
    return f"cleanup.policy={policy} with {names}, which deletes rows that " + " or ".join(
        what for _, what in limits
    )


def _check_count(topology: Topology, topic: NewTopic, counts: Mapping[str, int]) -> None:
    """Refuse another number of tasks than the state, or a topic between tasks, was made for."""
    found = counts.get(topic.name)
    if found is None or found == topic.partitions:
        return
    sources = [name for name in _behind(topology, topic.name) if counts[name] == topic.partitions]
    raise TopologyError(
        f"{' and '.join(sources) or 'the topology'} has {topic.partitions} partitions, but "
        f"{topic.name} was made for {found}: keys would meet the state of other keys. Run the "
        "application under another id, or stop all its instances and give streamlet reset "
        "module:attribute: both begin without state. With repartition(partitions=...) in front of "
        "its stores the number of an application's tasks does not follow its input any more"
    )


def _behind(topology: Topology, internal: str) -> list[str]:
    """The application's source topics whose partitions an internal topic's follow."""
    found: list[str] = []
    waiting = [
        part
        for part in topology.subtopologies
        if internal in (*part.changelog_topics, *part.output_topics)
    ]
    seen = set()
    while waiting:
        part = waiting.pop()
        seen.add(part.id)
        found += [topic for topic in part.input_topics if topic in topology.source_topics]
        between = {topic.name for topic in part.repartitions}
        waiting += [
            other
            for other in topology.subtopologies
            if other.id not in seen and between.intersection(other.output_topics)
        ]
    return sorted(set(found))
