"""Instances that start, start a worker again, or stop while no broker answers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from streamlet.broker.port import HOST, PortReservation
from streamlet.errors import TimedOutError
from streamlet.testing import KafkaBroker
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load
from tests.integration.chaos.topologies import counting

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

WAITS = "waiting for a broker"
#: Longer than any stop takes, also on a machine that is full.
STOP_S = 300


@contextmanager
def silent(broker: KafkaBroker, how: str) -> Iterator[None]:
    """While the block lasts the broker is gone, or hangs with its port open."""
    if how == "gone":
        broker.kill()
    else:
        os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if how == "gone":
            broker.start()
        else:
            os.kill(broker.pid, signal.SIGCONT)


def await_line(instance: Instance, line: str, times: int = 1) -> None:
    """Wait until an instance logged a line so often."""
    wait_for(lambda: instance.log().count(line) >= times, instance.log)


def interrupted(instance: Instance) -> int:
    """The exit code of an instance that runs, after Ctrl-C."""
    instance.workers()
    instance.interrupt()
    return instance.wait()


@pytest.mark.parametrize("how", ["gone", "hanging"])
def test_an_instance_waits_for_a_broker_and_then_runs(
    kafka_broker: KafkaBroker, make_cluster: Callable[..., Cluster], how: str
) -> None:
    """It gave up after 15 s."""
    cluster = make_cluster("counting")
    load = Load(cluster.servers, cluster.topic("in"))
    load.send(500)
    load.flush()
    with silent(kafka_broker, how):
        instances = [cluster.instance("a").start(), cluster.instance("b", 0).start()]
        for instance in instances:
            await_line(instance, WAITS, times=3)  # some 20 s
    load.send(500)
    true = load.finish()
    cluster.await_settled()
    assert [interrupted(instance) for instance in instances] == [0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, instances), true)


@pytest.mark.parametrize(
    ("number", "processes"), [(signal.SIGINT, 0), (signal.SIGTERM, 1), (signal.SIGUSR1, 1)]
)
def test_a_signal_ends_a_start_that_waits(
    make_cluster: Callable[..., Cluster], number: signal.Signals, processes: int
) -> None:
    """It has no tasks yet, so that a drain is over at once."""
    cluster = make_cluster("counting")
    with PortReservation() as nobody:
        cluster.servers = f"{HOST}:{nobody.port}"
        instance = cluster.instance("a", processes).start()
        await_line(instance, WAITS)
        assert instance.process is not None
        instance.process.send_signal(number)
        assert instance.wait(STOP_S) == 0, instance.log()
    assert "a stopped: 0 records processed" in instance.log()
    assert "Traceback" not in instance.log()


def test_the_wait_for_a_broker_may_have_an_end(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster("counting")
    with PortReservation() as nobody:
        cluster.servers = f"{HOST}:{nobody.port}"
        instance = cluster.instance("a", more=["--wait-for-broker", "3s"]).start()
        assert instance.wait(STOP_S) == 4, instance.log()
        assert f"--wait-for-broker): cannot reach {cluster.servers}" in instance.log()
        app = counting(cluster.name)
        config = {"bootstrap.servers": cluster.servers, "state.dir": str(instance.state)}
        with pytest.raises(TimedOutError, match="no broker after"):
            app.run(wait_for_broker=1, settings=app.load_settings(overrides=settings_of(config)))


def settings_of(config: dict[str, str]) -> list[str]:
    """Settings as the command line gives them."""
    return [f"{key}={value}" for key, value in config.items()]


def test_a_worker_that_died_while_the_broker_is_away_waits_for_it(
    kafka_broker: KafkaBroker, make_cluster: Callable[..., Cluster]
) -> None:
    """It failed and was started again, every 17 s, and a stop then ended with exit code 1."""
    cluster = make_cluster("counting")
    a, b = cluster.instance("a").start(), cluster.instance("b").start()
    load = Load(cluster.servers, cluster.topic("in"))
    load.send(500)
    load.flush()
    cluster.await_settled()
    with silent(kafka_broker, "gone"):
        for instance in (a, b):
            instance.kill_worker(instance.await_workers()[0])
        for instance in (a, b):
            await_line(instance, WAITS, times=3)
        assert b.stop() == 0, b.log()
    load.send(500)
    true = load.finish()
    cluster.await_settled()
    assert a.stop() == 0, a.log()
    assert a.log().count("starting it again") == 1, a.log()
    assert_counts_exact(cluster, contents(cluster, [a, b]), true)


@pytest.mark.parametrize(("how", "processes"), [("gone", 2), ("hanging", 0)])
def test_a_stop_while_the_broker_is_away_is_as_any_other(
    kafka_broker: KafkaBroker,
    make_cluster: Callable[..., Cluster],
    how: str,
    processes: int,
) -> None:
    """Its exit code is 0, and it takes a bounded time; what was not committed comes again."""
    cluster = make_cluster("counting")
    instance = cluster.instance("a", processes).start()
    with Load(cluster.servers, cluster.topic("in")) as load:
        cluster.await_running()
        with silent(kafka_broker, how):
            said = time.monotonic()
            instance.interrupt()
            assert instance.wait(STOP_S) == 0, instance.log()
            print(f"stopped after {time.monotonic() - said:.1f} s")
        assert "Traceback" not in instance.log(), instance.log()
        instance.start()
        true = load.finish()
    cluster.await_settled()
    assert interrupted(instance) == 0, instance.log()
    assert_counts_exact(cluster, contents(cluster, [instance]), true)
