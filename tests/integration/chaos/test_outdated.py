"""State older than its changelog's memory; what others wrote while the owner was idle."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from streamlet.state.changelog import encode_column
from streamlet.state.rows import untimed
from streamlet.testing import KafkaBroker
from streamlet.types import StateNumber, TopicPartition
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load, read_all

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

KEYS = [f"k{i}" for i in range(50)]
#: Compaction that forgets deletions as soon as it can.
AT_ONCE = {
    "min.compaction.lag.ms": "0",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "500",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "100",
}


@pytest.fixture
def compacting() -> Iterator[KafkaBroker]:
    """A broker whose cleaner looks at topics twice a second."""
    with KafkaBroker(properties={"log.cleaner.backoff.ms": "500"}) as broker:
        yield broker


def put(cluster: Cluster, entries: Mapping[str, int]) -> None:
    """Write records to the input and wait until they are processed and committed."""
    producer = Producer({"bootstrap.servers": cluster.servers})
    for key, value in entries.items():
        producer.produce(cluster.topic("in"), value.to_bytes(8, "big", signed=True), key.encode())
    assert producer.flush(300) == 0
    cluster.await_settled()


def change(servers: str, topic: str, settings: Mapping[str, str]) -> None:
    """Change settings of a topic."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    client = AdminClient({"bootstrap.servers": servers})
    for future in client.incremental_alter_configs([resource]).values():
        future.result(300)


def last_values(cluster: Cluster, instance: Instance) -> dict[str, int]:
    """What the store of a stopped instance holds."""
    (copy,) = contents(cluster, [instance]).values()
    return {
        key.decode(): int.from_bytes(value, "big", signed=True)
        for key, value in copy.entries["last"].items()
    }


def forget_deletions(cluster: Cluster) -> None:
    """Have the broker compact the changelog until nothing of the deleted keys is left in it."""
    changelog = cluster.topic("last-changelog")
    change(cluster.servers, changelog, AT_ONCE)
    turns = iter(range(1, 1_000))

    def forgotten() -> bool:
        put(cluster, {"stays": next(turns)})  # a new segment, and something to clean
        return {r.key for r in read_all(cluster.servers, changelog, [0])} == {b"stays"}

    wait_for(forgotten, "the broker compacts")


def test_a_backup_that_is_older_than_compaction_remembers_is_rebuilt(
    compacting: KafkaBroker, tmp_path: Path
) -> None:
    cluster = Cluster(compacting.bootstrap_servers, tmp_path, "dropping", partitions=1)
    try:
        instance, saved = cluster.instance("a").start(), tmp_path / "backup"
        put(cluster, dict.fromkeys(KEYS, 1))
        assert instance.stop() == 0, instance.log()
        assert last_values(cluster, instance) == dict.fromkeys(KEYS, 1)
        shutil.copytree(instance.state, saved)
        instance.start()
        put(cluster, dict.fromkeys(KEYS, -1))
        forget_deletions(cluster)
        assert instance.stop() == 0, instance.log()
        shutil.rmtree(instance.state)
        shutil.copytree(saved, instance.state)
        instance.start()
        put(cluster, {"stays": 1_000})
        assert instance.stop() == 0, instance.log()
        assert last_values(cluster, instance) == {"stays": 1_000}
        assert "was compacted behind its position, its state is" in instance.log()
    finally:
        cluster.end()


def test_an_idle_owner_writes_again_what_a_late_member_wrote(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Else compaction keeps the late record of the key only, which counts for nobody."""
    cluster = make_cluster(partitions=1, metadata_max_age_ms="1000")
    instance = cluster.instance("a").start()
    load = Load(cluster.servers, cluster.topic("in"), keys=20)
    load.send(200)
    load.flush()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    instance.start()  # in its second epoch
    load.send(200)
    true = load.finish()
    cluster.await_settled()
    changelog = TopicPartition(cluster.topic("counts-changelog"), 0)
    values, _ = encode_column(StateNumber(1, 3), untimed([(7).to_bytes(8, "big")]))
    producer = Producer({"bootstrap.servers": cluster.servers})
    producer.produce(changelog.topic, values[0], b"k3", partition=0)
    assert producer.flush(300) == 0

    def newest() -> bytes | None:
        found = read_all(cluster.servers, changelog.topic, [0])
        return [record.value for record in found if record.key == b"k3"][-1]

    wait_for(lambda: newest() != values[0], lambda: f"it is overwritten\n{instance.log()}")
    assert "a process that does not have the task wrote 1 keys" in instance.log()
    assert instance.stop() == 0, instance.log()
    assert_counts_exact(cluster, contents(cluster, [instance]), true)
