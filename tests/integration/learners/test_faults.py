"""Kill -9, frozen processes, restarts: at each stage of a hand-over, on a real broker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as RawPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from streamlet.testing import KafkaBroker
from streamlet.types import TaskId, TopicPartition
from tests.integration.chaos.checks import go_on
from tests.integration.chaos.support import PARTITIONS, Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load
from tests.integration.learners.scenes import (
    ACTIVATING,
    LEARNING,
    ORDERED,
    READY,
    STAGES,
    STOPPED,
    TALKATIVE,
    assert_exact_in_the_end,
    assert_settled,
    await_line,
    await_owners,
    catch,
)

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


@contextmanager
def frozen(instance: Instance) -> Iterator[None]:
    """Its only worker stands still as long as the block lasts."""
    (worker,) = instance.await_workers()
    os.kill(worker, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


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
        with frozen(owner):
            await_owners(cluster, joiner)
        await_owners(cluster, owner, joiner)
        go_on(load)
        assert_exact_in_the_end(cluster, [owner, joiner], load)


def test_an_owner_frozen_beyond_its_poll_interval_harms_nobody(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Its session goes on, so it leaves by itself or does not even notice.

    Its producer's queue is full of what it had no time to send.
    """
    more = {"session_timeout_ms": "20000", "max_poll_interval_ms": "3000"}
    cluster = make_cluster("counting", producer_linger_ms="1000", **more)
    owner = cluster.instance("a", more=TALKATIVE).start()
    joiner = cluster.instance("b", more=TALKATIVE)
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        catch(LEARNING, owner, joiner)
        with frozen(owner):
            until = time.monotonic() + 4
            wait_for(lambda: time.monotonic() > until, "more than the poll interval")
        await_owners(cluster, owner, joiner)
        go_on(load)
        assert_exact_in_the_end(cluster, [owner, joiner], load)


def test_a_changelog_that_is_deleted_within_a_handover_is_made_anew_and_the_group_settles(
    make_cluster: Callable[..., Cluster],
) -> None:
    """The member that has the state fills it; one that is given the task before gives it back."""
    cluster = make_cluster("counting")
    owner = cluster.instance("a", more=TALKATIVE).start()
    joiner = cluster.instance("b", more=TALKATIVE)
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        catch(LEARNING, owner, joiner)
        cluster.admin.delete_topics([cluster.topic("counts-changelog")])
        await_line(owner, "starting it again", beside=[joiner])
        await_owners(cluster, owner, joiner)
        assert_settled(cluster)
        assert_exact_in_the_end(cluster, [owner, joiner], load)


def cut_off(cluster: Cluster, before: Mapping[TopicPartition, int]) -> None:
    """Delete what lies before these offsets, which needs a topic that may be deleted from."""
    admin = AdminClient({"bootstrap.servers": cluster.servers})
    policy = ConfigEntry(
        "cleanup.policy",
        "compact,delete",
        incremental_operation=AlterConfigOpType.SET,
    )
    topics = {tp.topic for tp in before}
    resources = [
        ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[policy])
        for topic in sorted(topics)
    ]
    for changed in admin.incremental_alter_configs(resources).values():
        changed.result()
    raw = [RawPartition(tp.topic, tp.partition, offset) for tp, offset in before.items()]
    for deleted in admin.delete_records(raw).values():
        deleted.result()


def damage(folder: Path) -> None:
    """Overwrite the beginning of the files that a task's database is opened by."""
    for manifest in (folder / "db").glob("MANIFEST-*"):
        with manifest.open("r+b") as file:
            file.write(b"\0" * 64)


def restored(instance: Instance, task: TaskId) -> bool:
    """Whether it found the task's state damaged as it opened it."""
    return f"state of task {task} is damaged" in instance.log()


def test_a_learner_whose_copies_are_damaged_or_older_than_the_changelog_starts_over(
    make_cluster: Callable[..., Cluster],
) -> None:
    """What is deleted the owner writes again, and copies from before that are not believed.

    So few copies are left whole that some of those it learns are damaged. At last it runs all
    tasks, so that none of them stays as it was.
    """
    cluster = make_cluster("counting")
    owner = cluster.instance("a", more=TALKATIVE)
    joiner = cluster.instance("b", more=TALKATIVE).start()
    changelogs = [
        TopicPartition(topic, partition)
        for part in cluster.topology.subtopologies
        for topic in part.changelog_topics
        for partition in range(PARTITIONS)
    ]
    with Load(cluster.servers, cluster.topic("in"), rate=1_000, keys=40) as load:
        await_owners(cluster, joiner)
        owner.start()
        await_owners(cluster, owner, joiner)
        assert joiner.stop() == 0, joiner.log()
        await_owners(cluster, owner)
        go_on(load, 25)
        ends = cluster.admin.end_offsets(changelogs)
        go_on(load, 50)
        cut_off(cluster, ends)
        damaged = [task for task in cluster.tasks if task.partition < PARTITIONS - 1]
        for task in damaged:
            damage(joiner.state / cluster.name / str(task))
        joiner.start()
        await_owners(cluster, owner, joiner)
        assert any(restored(joiner, task) for task in damaged), joiner.log()
        assert owner.stop() == 0, owner.log()
        await_owners(cluster, joiner)
        assert all(restored(joiner, task) for task in damaged), joiner.log()
        assert "starts over: its state" in joiner.log()
        assert_exact_in_the_end(cluster, [joiner], load)


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
