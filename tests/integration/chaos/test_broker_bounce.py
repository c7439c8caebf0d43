"""Each of three brokers goes away under an application and comes back; outputs stay exact.

One after the other is the leader of partitions, of the group's positions, of transactions and the
controller, so that each of these changes hands, once by a stop in order and twice by a kill.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlet.testing import KafkaBroker
from tests.integration.chaos.checks import go_on
from tests.integration.chaos.support import LONG_SESSIONS, Cluster, running
from tests.integration.chaos.test_exactly_once import EXACTLY_ONCE, assert_exact
from tests.integration.chaos.topics import Load

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


@pytest.fixture
def kafka() -> Iterator[KafkaBroker]:
    with KafkaBroker(brokers=3, start_timeout_ms=180_000) as kafka:
        yield kafka


def test_brokers_that_bounce_one_by_one_lose_and_double_nothing(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    settings = {**LONG_SESSIONS, **EXACTLY_ONCE}
    with running(Cluster(kafka.bootstrap_servers, tmp_path, "counting", **settings)) as cluster:
        instance = cluster.instance("a").start()
        with Load(cluster.servers, cluster.topic("in"), rate=500) as load:
            cluster.await_running()
            for node in kafka.brokers:
                (node.stop if node is kafka.brokers[0] else node.kill)()
                go_on(load)
                node.start()
                go_on(load)
            true = load.finish()
        cluster.await_settled()
        assert instance.stop() == 0, cluster.logs()
        assert_exact(cluster, true)
