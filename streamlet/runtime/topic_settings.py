"""Topic settings that conflict with an application, described one per line."""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.kafka.ports import Admin
from streamlet.topology.graph import Topology
from streamlet.topology.internal_topics import Given, changelog_topics, given_for


def unapplied_settings(topology: Topology, admin: Admin, given: Given) -> list[str]:
    """The given settings that internal topics do not have, because they were created without.

    Raises:
        BrokerError: the broker does not answer.
    """
    if not given:
        return []
    found = admin.topic_settings([*topology.repartition_topics, *changelog_topics(topology)])
    return [
        f"{topic} has {name} = {has.get(name)}, and the settings say {value}"
        for topic, has in found.items()
        for name, value in given_for(topic, given).items()
        if has.get(name) != value
    ]


def broker_timed(topology: Topology, admin: Admin) -> list[str]:
    """The repartition topics whose broker gives records its own time: what it does, the cure.

    Raises:
        BrokerError: the broker does not answer.
    """
    topics = sorted(topology.repartition_topics)
    found = admin.topic_settings(topics) if topics else {}
    return [
        f"{topic} has message.timestamp.type=LogAppendTime: windows and joins behind it go by the "
        "broker's clock, not by the times of records. Set CreateTime with kafka-configs.sh"
        for topic in topics
        if found.get(topic, {}).get("message.timestamp.type") == "LogAppendTime"
    ]


def deleting_tables(topology: Topology, admin: Admin) -> list[str]:
    """The topics of a ``table()`` that may lose rows: the setting, what it loses, what to do.

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
