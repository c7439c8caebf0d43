"""Kill -9, frozen processes, restarts: at each stage of a hand-over, on a real broker."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from streamlet.testing import KafkaBroker
from tests.integration.chaos.support import Cluster
from tests.integration.chaos.topics import Load
from tests.integration.learners.scenes import (
    ACTIVATING,
    ORDERED,
    READY,
    STAGES,
    STOPPED,
    TALKATIVE,
    assert_exact_in_the_end,
    await_owners,
    catch,
    go_on,
)

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


@pytest.mark.parametrize("victim", ["owner", "learner"])
def test_kills_at_each_stage_of_a_handover_lose_nothing(
    make_cluster: Callable[..., Cluster], victim: str
) -> None:
    """The owner is the group's leader too, and whoever survives is the next one."""
    cluster = make_cluster("counting")
    names = iter("abcdefghij")
    owner = cluster.instance(next(names), more=TALKATIVE).start()
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        for stage in STAGES:
            joiner = cluster.instance(next(names), more=TALKATIVE)
            catch(stage, owner, joiner)
            dead, survivor = (owner, joiner) if victim == "owner" else (joiner, owner)
            print(f"{stage.name}: kill -9 {dead.name}, {survivor.name} survives")
            dead.kill()
            await_owners(cluster, survivor)
            owner = survivor
        assert_exact_in_the_end(cluster, [owner], load)


def test_a_leader_killed_when_a_learner_of_another_owner_is_ready_stops_no_handover(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting")
    leader, owner, joiner = (cluster.instance(name, more=TALKATIVE) for name in "abc")
    leader.start()
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        owner.start()
        await_owners(cluster, leader, owner)
        catch(READY, owner, joiner)
        leader.kill()
        await_owners(cluster, owner, joiner)
        assert_exact_in_the_end(cluster, [owner, joiner], load)


def test_an_owner_frozen_in_a_handover_comes_back_as_a_zombie_and_harms_nobody(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Whatever it still had to write or to commit, it must not count."""
    cluster = make_cluster("counting")
    owner = cluster.instance("a", more=TALKATIVE).start()
    joiner = cluster.instance("b", more=TALKATIVE)
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        catch(STOPPED, owner, joiner)
        (frozen,) = owner.await_workers()
        os.kill(frozen, signal.SIGSTOP)
        try:
            await_owners(cluster, joiner)
        finally:
            os.kill(frozen, signal.SIGCONT)
        await_owners(cluster, owner, joiner)
        go_on(load)
        assert_exact_in_the_end(cluster, [owner, joiner], load)


def test_a_broker_that_restarts_within_a_handover_loses_nothing(
    kafka_broker: KafkaBroker, make_cluster: Callable[..., Cluster]
) -> None:
    cluster = make_cluster("counting", session_timeout_ms="20000")
    owner = cluster.instance("a", more=TALKATIVE).start()
    joiner = cluster.instance("b", more=TALKATIVE)
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        catch(ORDERED, owner, joiner)
        kafka_broker.restart()
        await_owners(cluster, owner, joiner)
        go_on(load)
        assert_exact_in_the_end(cluster, [owner, joiner], load)


@pytest.mark.parametrize("who", ["owner", "learner"])
def test_a_static_member_that_restarts_within_a_handover_carries_out_nothing_twice(
    make_cluster: Callable[..., Cluster], who: str
) -> None:
    """It gets its old assignment back, with the order its predecessor had."""
    cluster = make_cluster("counting", session_timeout_ms="20000")
    owner = cluster.instance("a", more=(*TALKATIVE, "--instance-id", "a")).start()
    joiner = cluster.instance("b", more=(*TALKATIVE, "--instance-id", "b"))
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        catch(STOPPED if who == "owner" else ACTIVATING, owner, joiner)
        restarted = owner if who == "owner" else joiner
        restarted.kill()
        restarted.start()
        await_owners(cluster, owner, joiner)
        go_on(load)
        assert_exact_in_the_end(cluster, [owner, joiner], load)
