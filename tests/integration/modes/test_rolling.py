"""A group goes from one mode to the next and back, an instance at a time, under load."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.checks import go_on
from tests.integration.chaos.support import LONG_SESSIONS, Cluster
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.learners.scenes import assert_exact_in_the_end, await_owners
from tests.integration.modes.scenes import (
    await_group,
    await_seen,
    await_share,
    in_mode,
    roll,
    seen_by_kafka_python,
    seen_by_librdkafka,
)

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_a_rolling_upgrade_from_eager_to_incremental_loses_nothing(
    make_cluster: Callable[..., Cluster],
) -> None:
    """On the way, in mode upgrading, every Kafka tool can read the group."""
    cluster = make_cluster("counting", **LONG_SESSIONS)
    instances = [in_mode(cluster, name, "eager") for name in "ab"]
    with Load(cluster.servers, cluster.topic("in"), keys=50, rate=500, beat_s=SLOW_BEAT_S) as load:
        for instance in instances:
            await_share(cluster, instance.start())
        await_group(cluster, "consumer", "eager")
        instances = roll(cluster, instances, "upgrading")
        await_group(cluster, "consumer", "upgrading")
        for seen in (seen_by_librdkafka, seen_by_kafka_python):
            await_seen(cluster, seen)
        (first,) = roll(cluster, instances[:1], "incremental")
        await_group(cluster, "consumer", "upgrading")  # it was refused, and makes do
        second = in_mode(cluster, "c", "incremental").start()
        await_share(cluster, second)
        await_owners(cluster, first, second, instances[1])
        assert instances[1].stop() == 0, instances[1].log()
        await_group(cluster, "stream", "incremental")
        go_on(load)
        assert_exact_in_the_end(cluster, [first, second], load)
    # When nobody needed the old type any more both went over, with tasks nobody had touched.
    for instance in (first, second):
        assert "Reclaim(task=" in instance.log()
        assert "which may be that of others" not in instance.log()


def test_rolling_back_from_incremental_to_eager_loses_nothing(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting", **LONG_SESSIONS)
    instances = [in_mode(cluster, name, "incremental") for name in "ab"]
    with Load(cluster.servers, cluster.topic("in"), keys=50, rate=500, beat_s=SLOW_BEAT_S) as load:
        for instance in instances:
            await_share(cluster, instance.start())
        await_group(cluster, "stream", "incremental")
        instances = roll(cluster, instances, "upgrading")
        await_group(cluster, "consumer", "upgrading")
        instances = roll(cluster, instances, "eager")
        await_group(cluster, "consumer", "eager")
        go_on(load)
        assert_exact_in_the_end(cluster, instances, load)
