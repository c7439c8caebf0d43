"""Brokers that go away and come back, and workers that sleep too long."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

import pytest

from streamlet.testing import KafkaBroker
from tests.integration.chaos.checks import assert_counts_exact, await_share, contents, go_on
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def assert_exact_in_the_end(cluster: Cluster, instances: list[Instance], load: Load) -> None:
    """Everything is processed, and counted once."""
    true = load.finish()
    cluster.await_settled()
    assert [instance.stop() for instance in instances] == [0] * len(instances), cluster.logs()
    assert_counts_exact(cluster, contents(cluster, instances), true)


def assert_told_in_our_words(instance: Instance) -> None:
    """Each outage of a worker is told by three lines, and by none of its clients' own."""
    log = instance.log()
    told = log.count("no broker answers since")
    assert log.count("stand still meanwhile") == told
    assert log.count("a broker answers again, after") == told
    assert "FAIL [" not in log
    assert "METADATAUPDATE [" not in log


def test_a_broker_that_restarts_loses_nothing(
    kafka_broker: KafkaBroker, make_cluster: Callable[..., Cluster]
) -> None:
    """Within the session timeout workers wait, and go on."""
    cluster = make_cluster("counting", session_timeout_ms="120000")
    instances = [cluster.instance("a").start(), cluster.instance("b").start()]
    with Load(cluster.servers, cluster.topic("in")) as load:
        for instance in instances:
            await_share(cluster, instance)
        kafka_broker.restart()
        go_on(load, 10)
        assert_exact_in_the_end(cluster, instances, load)
    for instance in instances:
        assert "starting it again" not in instance.log()
        assert_told_in_our_words(instance)


def test_a_broker_that_is_away_longer_than_the_session_timeout_loses_nothing(
    kafka_broker: KafkaBroker, make_cluster: Callable[..., Cluster]
) -> None:
    """Nothing can be delivered: workers fail, and start again until the broker is back."""
    cluster = make_cluster("counting", session_timeout_ms="6000")
    instances = [cluster.instance("a").start(), cluster.instance("b").start()]
    with Load(cluster.servers, cluster.topic("in")) as load:
        cluster.await_running()
        kafka_broker.stop()
        back = time.monotonic() + 12
        wait_for(lambda: time.monotonic() > back, "twice the session timeout")
        kafka_broker.start()
        go_on(load, 10)
        assert_exact_in_the_end(cluster, instances, load)


def test_a_worker_that_slept_through_its_session_drops_its_tasks(
    make_cluster: Callable[..., Cluster], seed: int, rounds: int
) -> None:
    """Stopped in the middle of whatever it did; what it still writes afterwards counts nowhere."""
    cluster = make_cluster("counting", session_timeout_ms="6000")
    a, b = cluster.instance("a").start(), cluster.instance("b").start()
    dice = random.Random(seed)
    with Load(cluster.servers, cluster.topic("in")) as load:
        cluster.await_running()
        for _ in range(max(1, rounds // 6)):
            await_share(cluster, a)
            await_share(cluster, b)
            sleep_too_long(cluster, a, dice)
            go_on(load)
        await_share(cluster, a)
        assert_exact_in_the_end(cluster, [a, b], load)


def sleep_too_long(cluster: Cluster, instance: Instance, dice: random.Random) -> None:
    """Stop an instance's only worker until others have its tasks, then let it go on."""
    (sleeper,) = instance.await_workers()
    moment = time.monotonic() + dice.uniform(0.1, 1.0)
    wait_for(lambda: time.monotonic() >= moment, "the moment")
    said = len(instance.log())
    os.kill(sleeper, signal.SIGSTOP)
    wait_for(
        lambda: not any(o.startswith(f"{instance.name}-") for o in cluster.owners().values()),
        lambda: f"others have all tasks\n{cluster.logs()}",
    )
    os.kill(sleeper, signal.SIGCONT)
    # It drops its tasks, or fails because what it had queued is too old, and starts again.
    wait_for(
        lambda: any(sign in instance.log()[said:] for sign in ("lost all tasks", "not delivered")),
        lambda: f"it notices\n{instance.log()}",
    )
