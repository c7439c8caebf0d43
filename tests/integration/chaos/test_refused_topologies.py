"""A topology that does not fit its state or its topics is refused, and harms neither."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from rocksdict import Options, Rdict

from streamlet.types import TopicPartition
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import PARTITIONS, Cluster
from tests.integration.chaos.test_failures import database, settled_once
from tests.integration.chaos.topics import Load
from tests.integration.learners.scenes import await_line, await_owners
from tests.integration.scaling.commands import operate

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_a_refused_topology_leaves_the_store_as_it_was(
    make_cluster: Callable[..., Cluster],
) -> None:
    """The topology of before goes on counting, here and on a host that has the changelog only."""
    cluster = make_cluster()
    instance, load = settled_once(cluster)
    changed = cluster.instance("changed", state_of=instance, shape="renamed").start()
    assert changed.wait() == 2, changed.log()
    assert "store counts is not in the topology any more" in changed.log()
    load.send(1_000)
    load.flush()
    instance.start()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    assert "is restored" not in instance.log()
    assert_counts_exact(cluster, contents(cluster, [instance]), load.produced)
    load.send(1_000)
    true = load.finish()
    other = cluster.instance("other").start()
    cluster.await_settled()
    assert other.stop() == 0, other.log()
    assert_counts_exact(cluster, contents(cluster, [other]), true)


def test_a_store_that_is_not_in_its_database_any_more_is_restored(
    make_cluster: Callable[..., Cluster],
) -> None:
    """As versions before left it when they refused a topology: the position stands, alone."""
    cluster = make_cluster()
    instance, load = settled_once(cluster)
    for partition in range(PARTITIONS):
        drop_store(str(database(cluster, instance, f"0_{partition}")), "counts")
    load.send(1_000)
    true = load.finish()
    instance.start()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    assert instance.log().count("the entries of store counts are missing") == PARTITIONS
    assert_counts_exact(cluster, contents(cluster, [instance]), true)


def drop_store(folder: str, store: str) -> None:
    """Drop a store's column family and leave everything else."""
    options = Options(raw_mode=True)
    families = {name: options for name in Rdict.list_cf(folder, options)}
    raw = Rdict(folder, options, families)
    raw.drop_column_family(f"store.{store}")
    raw.close()


def test_partitions_beyond_those_of_the_state_are_refused_and_nothing_stops(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Instances that run go on, also with a worker started again; one that starts is refused."""
    cluster = make_cluster(partitions=2, metadata_max_age_ms="1000")
    a, b = (cluster.instance(name).start() for name in "ab")
    load = Load(cluster.servers, cluster.topic("in"))  # knows two partitions, for five minutes
    load.send(1_000)
    load.flush()
    await_owners(cluster, a, b)
    admin = AdminClient({"bootstrap.servers": cluster.servers})
    (done,) = admin.create_partitions([NewPartitions(cluster.topic("in"), 4)]).values()
    done.result()
    producer = Producer({"bootstrap.servers": cluster.servers})
    producer.produce(cluster.topic("in"), key=b"k0", value=bytes(8), partition=3)
    assert producer.flush(300) == 0
    for instance in (a, b):
        await_line(instance, "other partitions are not read")
    (worker,) = a.workers()
    heard = len(a.log())
    a.kill_worker(worker)
    await_line(a, "other partitions are not read", heard)
    refused = cluster.instance("c").start()
    assert refused.wait() == 2, refused.log()
    assert f"{cluster.topic('in')} has 4 partitions" in refused.log()
    assert "was made for 2: keys would meet" in refused.log()
    assert "another id" in refused.log()
    assert "streamlet reset" in refused.log()
    found = operate(cluster, "status", cluster.name, "--check")
    assert found.code == 1, found
    checked = found.document
    assert checked["unread"] == {cluster.topic("in"): {"2": 0, "3": 1}}
    assert checked["input_lag"][cluster.topic("in")]["3"] == 1
    assert [one["rule"] for one in checked["violations"]] == ["T3"]
    load.send(1_000)
    true = load.finish()
    await_owners(cluster, a, b)
    cluster.await_settled()
    beyond = [TopicPartition(cluster.topic("in"), partition) for partition in (2, 3)]
    assert [cluster.admin.end_offsets(beyond)[tp] for tp in beyond] == [0, 1], "load went astray"
    assert [a.stop(), b.stop()] == [0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, [a, b]), true)
