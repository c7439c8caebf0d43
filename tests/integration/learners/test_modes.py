"""Standbys take over where they are, and both ways of handing over keep every count."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.admin.status_look import StatusLook
from streamlet.config import Settings
from streamlet.coordinator.transport import Transport
from tests.integration.chaos.checks import assert_complete_and_in_order, go_on
from tests.integration.chaos.support import LONG_SESSIONS, PARTITIONS, SELDOM_S, Cluster, wait_for
from tests.integration.chaos.topics import Load, read_all
from tests.integration.learners.scenes import (
    TALKATIVE,
    assert_exact_in_the_end,
    await_owners,
)
from tests.windows import window

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


@pytest.mark.parametrize("mode", ["release", "surrender"])
def test_instances_come_and_go_and_every_record_is_counted_once(
    make_cluster: Callable[..., Cluster], mode: str
) -> None:
    """Nothing fails: where tasks are released with a mark, not even an output is repeated."""
    cluster = make_cluster("counting", learner_handover=mode, **LONG_SESSIONS)
    a, b, c = (cluster.instance(name, more=TALKATIVE) for name in "abc")
    a.start()
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        b.start()
        await_owners(cluster, a, b)
        c.start()
        await_owners(cluster, a, b, c)
        assert a.stop() == 0, a.log()
        await_owners(cluster, b, c)
        go_on(load)
        assert_exact_in_the_end(cluster, [b, c], load)
    if mode == "release":
        assert "marks={TaskId" in a.log()
        records = read_all(cluster.servers, cluster.topic("counts"), range(PARTITIONS))
        assert_complete_and_in_order(records, load.produced)
    else:
        assert "marks={TaskId" not in a.log() + b.log()


def test_a_standby_takes_over_from_a_killed_owner_without_reading_from_the_start(
    make_cluster: Callable[..., Cluster],
) -> None:
    # Both join before tasks are given: who took a task over gets its standby at the next rebalance.
    config = {"num_standby_replicas": "1", "initial_assignment_delay_ms": "10000"}
    cluster = make_cluster("counting", **config)
    a, b = (cluster.instance(name, more=TALKATIVE).start() for name in "ab")
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        await_owners(cluster, a, b)
        await_standbys(cluster)
        go_on(load)
        before = len(b.log())
        a.kill()
        await_owners(cluster, b)
        said = b.log()[before:]
        go_on(load)
        assert_exact_in_the_end(cluster, [b], load)
    # A promoted copy is never opened again, nor restored by the worker itself.
    assert "is restored without its copy" not in said
    assert "restoring" not in said
    assert "starts over" not in b.log()


def await_standbys(cluster: Cluster) -> None:
    """Wait until every task has a standby."""
    transport = Transport(cluster.servers, client_id="look")
    settings = Settings.load(overrides=["num.standby.replicas=1"])
    look = StatusLook(window(transport, cluster.admin, cluster.name, settings))

    def there() -> bool:
        instances = look.now()["instances"]
        tasks = [t for i in instances for m in i["members"] for t in m["tasks"]]
        return len([t for t in tasks if t["role"] == "standby"]) == len(cluster.tasks)

    try:
        wait_for(there, lambda: f"standbys: {look.now()}\n{cluster.logs()}", 300, SELDOM_S)
    finally:
        transport.close()
