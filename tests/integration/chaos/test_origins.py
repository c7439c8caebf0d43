"""An output topic with origins, whose readers tell what a crash had written again."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

import streamlet as sl
from streamlet.consumer import ConsumerRecord
from streamlet.tools.main import build
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.topics import Load, read_all

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

KILLS = 4


def test_what_a_killed_worker_wrote_again_is_read_once(
    make_cluster: Callable[..., Cluster],
) -> None:
    """By the library, by a consumer, and by the command; the raw topic has repetitions."""
    cluster = make_cluster("originated", commit_interval_ms="3000")
    instance = cluster.instance("a", 2).start()
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        for _ in range(KILLS):
            before = written(cluster)
            wait_for(lambda before=before: written(cluster) > before + 500, "some are written")
            instance.kill_worker(instance.await_workers()[0])
        true = load.finish()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()

    topic = cluster.topic("counts")
    raw = [
        ConsumerRecord(topic, r.partition, r.offset, r.key, r.value, r.at_ms, r.headers)
        for r in read_all(cluster.servers, topic, range(cluster.partition_count))
    ]
    assert len(raw) > true.total(), "no record was written again"
    assert_each_once([*sl.without_repeats(raw)], true)
    assert_each_once(consumed(cluster, topic, len(raw)), true)
    assert shown(cluster, topic) == true.total()
    print(f"{len(raw) - true.total()} of {len(raw)} records are repetitions")


def written(cluster: Cluster) -> int:
    ends = cluster.admin.end_offsets(cluster.partitions(cluster.topic("counts")))
    return sum(ends.values())


def assert_each_once(records: list[ConsumerRecord], true: Counter[str]) -> None:
    """Each key was counted from 1 up, without a gap or a repetition."""
    counts: defaultdict[str, list[int]] = defaultdict(list)
    for record in records:
        assert record.key is not None
        assert record.value is not None
        counts[record.key.decode()].append(int.from_bytes(record.value, "big", signed=True))
    assert counts == {key: list(range(1, count + 1)) for key, count in true.items()}


def consumed(cluster: Cluster, topic: str, count: int) -> list[ConsumerRecord]:
    """The records that a consumer reads, through a filter."""
    new, repeats = [], sl.RepeatFilter()
    config = {"auto.offset.reset": "earliest"}
    with sl.Consumer(
        topic, f"{topic}-reader", bootstrap_servers=cluster.servers, config=config
    ) as consumer:
        read = 0
        while read < count:
            records = consumer.poll(1_000, 60.0)
            assert records, f"{read} of {count} records come"
            read += len(records)
            new += repeats.new(records)
    return new


def shown(cluster: Cluster, topic: str) -> int:
    """How many records ``streamlet topics read --without-repeats`` prints."""
    words = ["topics", "read", topic, "--value", "int", "--without-repeats", "--json"]
    done = CliRunner().invoke(build(), [*words, "--bootstrap-servers", cluster.servers])
    assert done.exit_code == 0, done.stderr
    return len([json.loads(line) for line in done.stdout.splitlines()])
