"""Instances that come back in another mode, and what tools that are not ours see of their group."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from streamlet.admin.status_look import StatusLook
from streamlet.coordinator.transport import Transport
from streamlet.types import TopicPartition
from tests.integration.chaos.support import SELDOM_S, Cluster, Instance, wait_for
from tests.integration.learners.scenes import TALKATIVE
from tests.windows import window

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient

_RUNS = re.compile(r" RUNNING tasks: \d")


def in_mode(cluster: Cluster, name: str, mode: str, after: Instance | None = None) -> Instance:
    """An instance in a mode; ``after``: it takes over the folder of that one."""
    option = ("--set", f"stream.rebalancing.mode={mode}")
    return cluster.instance(name, state_of=after, more=(*TALKATIVE, *option))


def await_share(cluster: Cluster, instance: Instance) -> None:
    """Wait until it runs a task."""
    wait_for(
        lambda: _RUNS.search(instance.log()),
        lambda: f"{instance.name} has its share\n{cluster.logs()}",
    )


def roll(cluster: Cluster, instances: Sequence[Instance], mode: str) -> list[Instance]:
    """Stop one after the other and start it again, with its state, in another mode."""
    renewed: list[Instance] = []
    for old in instances:
        assert old.stop() == 0, old.log()
        new = in_mode(cluster, old.name, mode, after=old).start()
        await_share(cluster, new)
        renewed.append(new)
    return renewed


def await_group(cluster: Cluster, protocol_type: str, mode: str) -> None:
    """Wait until the group is of this type and says that it is in this mode."""
    transport = Transport(cluster.servers, client_id="look")
    look = StatusLook(window(transport, cluster.admin, cluster.name))
    seen: list[dict[str, Any]] = []

    def is_so() -> bool:
        seen[:] = [look.now()["group"]]
        return (seen[0]["protocol_type"], seen[0]["mode"]) == (protocol_type, mode)

    try:
        wait_for(
            is_so,
            lambda: f"a group of type {protocol_type}: {seen}\n{cluster.logs()}",
            pause_s=SELDOM_S,
        )
    finally:
        transport.close()


def await_seen(cluster: Cluster, seen_by: Callable[[Cluster], Sequence[TopicPartition]]) -> None:
    """Wait until a tool sees each input once: one that moves is nobody's for a while."""
    wanted = sorted(cluster.inputs)
    wait_for(
        lambda: list(seen_by(cluster)) == wanted,
        lambda: f"{wanted} are seen: {seen_by(cluster)}\n{cluster.logs()}",
    )


def seen_by_librdkafka(cluster: Cluster) -> list[TopicPartition]:
    """Partitions of all members, as librdkafka's admin client sees a group that is stable."""
    admin = AdminClient({"bootstrap.servers": cluster.servers})
    listed = admin.list_consumer_groups().result()
    assert cluster.name in {group.group_id for group in listed.valid}
    found = admin.describe_consumer_groups([cluster.name])[cluster.name].result()
    if found.state != ConsumerGroupState.STABLE:
        return []
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(cluster.name)])
    committed = offsets[cluster.name].result().topic_partitions
    assert {TopicPartition(one.topic, one.partition) for one in committed} == set(cluster.inputs)
    return sorted(
        TopicPartition(one.topic, one.partition)
        for member in found.members
        for one in member.assignment.topic_partitions
    )


def seen_by_kafka_python(cluster: Cluster) -> list[TopicPartition]:
    """The same, as kafka-python's admin client sees it."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.servers)
    try:
        (found,) = admin.describe_groups([cluster.name]).values()
    finally:
        admin.close()
    return sorted(
        TopicPartition(one["topic"], number)
        for member in found["members"]
        for one in member["member_assignment"]["assigned_partitions"]
        for number in one["partitions"]
    )
