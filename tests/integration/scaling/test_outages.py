"""Commands that watch go on when a broker that did not answer for a while answers again."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from streamlet.testing import Fault, FaultProxy
from tests.integration.chaos.support import LONG_SESSIONS, Cluster, wait_for
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.scaling.commands import (
    ON_THE_WAY,
    answer,
    assert_left_well,
    await_band,
    await_words,
    begin,
)
from tests.integration.scaling.scenes import assert_nothing_lost

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

FIND_COORDINATOR, DESCRIBE_GROUPS = "FindCoordinator", "DescribeGroups"
REPEATED = "; trying again"
HELD = "; the marks hold meanwhile"


def silence(proxy: FaultProxy, *apis: str) -> Fault:
    """Connections get no answer from such a request on, until that is lifted."""
    return proxy.black_hole(apis, times=None)


def test_a_scale_down_outlives_a_broker_that_answers_nothing_for_longer_than_a_request(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Both before anything is marked and while the instances leave."""
    cluster = make_cluster("counting", learner_ready_linger_ms="15000", **LONG_SESSIONS)
    a, b = (cluster.instance(name).start() for name in "ab")
    with (
        Load(cluster.servers, cluster.topic("in"), rate=200, beat_s=SLOW_BEAT_S) as load,
        FaultProxy(cluster.servers) as proxy,
    ):
        await_band(cluster, [a, b])
        silent = silence(proxy, FIND_COORDINATOR)
        words = ("--name", "b", "--yes", "--json", "--wait")
        process = begin(
            cluster, "scale-down", cluster.name, *words, servers=proxy.bootstrap_servers
        )
        await_words(process, REPEATED)
        silent.lift()
        await_words(process, *ON_THE_WAY)
        silent = silence(proxy, FIND_COORDINATOR, DESCRIBE_GROUPS)
        await_words(process, HELD)
        silent.lift()
        wait_for(lambda: process.poll() is not None, lambda: f"it ends\n{cluster.logs()}")
        found = answer(process)
        assert (found.code, found.document["done"]) == (0, True), (found, cluster.logs())
        assert_left_well([b], [a])
        assert_nothing_lost(cluster, [a], load)


def test_a_watched_status_outlives_it(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster("counting")
    a = cluster.instance("a").start()
    cluster.await_running()
    with FaultProxy(cluster.servers) as proxy:
        silent = silence(proxy, FIND_COORDINATOR)
        words = ("status", cluster.name, "--watch", "--json")
        process = begin(cluster, *words, servers=proxy.bootstrap_servers)
        try:
            await_words(process, "cannot reach")
            silent.lift()
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            assert [one["name"] for one in first["instances"]] == ["a"]
            process.send_signal(signal.SIGINT)
            wait_for(lambda: process.poll() is not None, "it stops")
            assert process.returncode == 0
        finally:
            process.kill()
            process.communicate()
    assert a.stop() == 0
