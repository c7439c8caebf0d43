"""What cannot work says so, with a name and a reason; damaged state is found and made anew."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streamlet.broker.port import PortReservation
from streamlet.kafka.ports import NewTopic
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import PARTITIONS, Cluster, Instance, limit_files, wait_for
from tests.integration.chaos.topics import Load
from tests.integration.learners.scenes import await_line, await_owners
from tests.integration.scaling.commands import operate

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def settled_once(cluster: Cluster, count: int = 4_000) -> tuple[Instance, Load]:
    """A stopped instance that has counted some records, and the load that made them."""
    load = Load(cluster.servers, cluster.topic("in"))
    load.send(count)
    load.flush()
    instance = cluster.instance("a").start()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    return instance, load


def database(cluster: Cluster, instance: Instance, task: str) -> Path:
    """The folder of a task's database."""
    return instance.state / cluster.name / task / "db"


def test_a_state_folder_in_use_is_refused_with_its_holders_pid(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster()
    first = cluster.instance("first").start()
    first.await_workers()
    second = cluster.instance("second", state_of=first).start()
    assert second.wait() == 1
    assert first.process is not None
    assert f"is held by process {first.process.pid}" in second.log()


def test_tasks_stand_still_while_the_disk_refuses_writes_and_go_on_when_it_takes_them(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Half-way through, no file of the worker may grow any more: as a full disk would have it."""
    cluster = make_cluster()
    instance = cluster.instance("a").start()
    with Load(cluster.servers, cluster.topic("in")) as load:
        cluster.await_running()
        (worker,) = instance.workers()
        limit_files(worker, 16_384)
        wait_for(lambda: "stands still" in instance.log(), lambda: f"it fails\n{instance.log()}")
        assert f"cannot use the state in {instance.state}" in instance.log()
        assert "File too large" in instance.log()
        limit_files(worker, resource.RLIM_INFINITY)
        true = load.finish()
    cluster.await_settled()
    everything = "RUNNING tasks: " + " ".join(map(str, sorted(cluster.tasks)))
    wait_for(  # tasks that stand still may have committed all there is, without their copies
        lambda: everything in instance.log().rpartition("stands still")[2],
        lambda: f"all tasks are opened again\n{instance.log()}",
    )
    assert instance.workers() == [worker], f"the worker went on\n{instance.log()}"
    assert instance.stop() == 0, instance.log()
    assert_counts_exact(cluster, contents(cluster, [instance]), true)


def test_tasks_go_to_others_where_a_disk_refuses_writes_for_long(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster(task_timeout_ms="1500")
    a, b = (cluster.instance(name).start() for name in "ab")
    await_owners(cluster, a, b)
    (worker,) = a.workers()
    limit_files(worker, 16_384)
    with Load(cluster.servers, cluster.topic("in")) as load:
        await_line(a, "other instances are to run the tasks with state")
        await_owners(cluster, b)
        true = load.finish()
    cluster.await_settled()
    assert a.workers() == [worker], f"the worker went on\n{a.log()}"
    found = operate(cluster, "status", cluster.name, "--check")
    assert found.code == 0, found
    fails = {one["name"]: one["members"][0]["disk_fails"] for one in found.document["instances"]}
    assert fails == {"a": True, "b": False}
    assert [a.stop(), b.stop()] == [0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, [b]), true)


def test_damage_that_a_running_task_meets_has_that_task_restored_alone(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Bits flip in blocks of one store, which nobody reads when the store is opened."""
    cluster = make_cluster(cache_max_bytes="100000")
    load = Load(cluster.servers, cluster.topic("in"), keys=6_000)
    load.send(12_000)
    load.flush()
    instance = cluster.instance("a").start()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    flip_bits(database(cluster, instance, "0_1"))
    (worker,) = instance.start().await_workers()
    load.send(12_000)
    true = load.finish()
    cluster.await_settled()
    assert "task 0_1 is restored, and the others go on" in instance.log()
    assert "block checksum mismatch" in instance.log()
    assert instance.workers() == [worker], f"the worker went on\n{instance.log()}"
    assert instance.stop() == 0, instance.log()
    assert instance.log().count("and the others go on") == 1, "once is enough"
    assert_counts_exact(cluster, contents(cluster, [instance]), true)


def flip_bits(folder: Path) -> None:
    """Flip a bit in each block of the first half of the largest table: it holds entries."""
    table = max(folder.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    assert len(data) > 8_192, "more than what describes the entries"
    for at in range(100, len(data) // 2, 1_000):
        data[at] ^= 1
    table.write_bytes(bytes(data))


def cut_table(folder: Path) -> None:
    """Take away half of each table."""
    tables = sorted(folder.glob("*.sst"))
    assert tables, "nothing to damage"
    for table in tables:
        with table.open("r+b") as file:
            file.truncate(table.stat().st_size // 2)


def lose_current(folder: Path) -> None:
    """Empty the file that names the manifest."""
    (folder / "CURRENT").write_bytes(b"")


def scribble(folder: Path) -> None:
    """Overwrite the manifest's beginning."""
    (manifest,) = folder.glob("MANIFEST-*")
    with manifest.open("r+b") as file:
        file.write(b"\0" * 64)


def test_damaged_state_is_found_and_made_anew(make_cluster: Callable[..., Cluster]) -> None:
    """Each task damaged in another way; the one left alone is not touched."""
    cluster = make_cluster()
    instance, load = settled_once(cluster)
    cut_table(database(cluster, instance, "0_0"))
    lose_current(database(cluster, instance, "0_1"))
    scribble(database(cluster, instance, "0_2"))
    load.send(1_000)
    true = load.finish()
    instance.start()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    found = [n for n in range(PARTITIONS) if f"state of task 0_{n} is damaged" in instance.log()]
    assert found == [0, 1, 2]
    assert_counts_exact(cluster, contents(cluster, [instance]), true)


def test_folders_of_two_tasks_that_changed_places_are_restored(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Each holds keys that the other's changelog does not know."""
    cluster = make_cluster()
    instance, load = settled_once(cluster)
    one, other = (database(cluster, instance, task).parent for task in ("0_0", "0_1"))
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    load.send(1_000)
    true = load.finish()
    instance.start()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    assert f"{one} holds state of partition 1, not of 0" in instance.log()
    assert_counts_exact(cluster, contents(cluster, [instance]), true)


def test_a_changelog_made_anew_is_found_and_filled_from_the_state(
    make_cluster: Callable[..., Cluster],
) -> None:
    """The local copy is exactly the commit, and all that is left; others find it there again."""
    cluster = make_cluster()
    instance, load = settled_once(cluster)
    changelog = cluster.topic("counts-changelog")
    cluster.admin.delete_topics([changelog])
    wait_for(lambda: changelog not in cluster.admin.topics(), "the changelog is gone")
    load.send(1_000)
    load.flush()
    instance.start()  # makes the topic anew
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    assert f"topic {changelog} was created again" in instance.log()
    load.send(1_000)
    true = load.finish()
    other = cluster.instance("b").start()  # on an empty folder
    cluster.await_settled()
    assert other.stop() == 0, other.log()
    assert_counts_exact(cluster, contents(cluster, [other]), true)


def test_a_changelog_that_the_broker_makes_again_while_it_runs_is_made_right_and_filled(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Any client that asks for a deleted topic has a broker make it, with one partition."""
    cluster = make_cluster()
    instance = cluster.instance("a").start()
    load = Load(cluster.servers, cluster.topic("in"))
    load.send(1_000)
    load.flush()
    cluster.await_settled()
    changelog = cluster.topic("counts-changelog")
    cluster.admin.delete_topics([changelog])
    asking = Producer({"bootstrap.servers": cluster.servers})
    wait_for(lambda: made_by_broker(asking, changelog), "the broker makes it")
    load.send(1_000)
    load.flush()
    cluster.await_settled()
    assert f"{changelog} was made by a broker, with 1 partition" in instance.log()
    assert instance.stop() == 0, instance.log()
    assert cluster.admin.topics()[changelog].partitions == PARTITIONS
    assert cluster.admin.topic_config(changelog)["cleanup.policy"] == "compact"
    load.send(1_000)
    true = load.finish()
    other = cluster.instance("b").start()  # on an empty folder
    cluster.await_settled()
    assert other.stop() == 0, other.log()
    assert_counts_exact(cluster, contents(cluster, [other]), true)


def made_by_broker(asking: Producer, topic: str) -> bool:
    """Ask for a topic, as any client; whether the broker has made it by now."""
    return len(asking.list_topics(topic, timeout=10).topics[topic].partitions) == 1


def test_a_topology_that_changed_under_its_state_is_refused(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster()
    instance, _ = settled_once(cluster, 100)
    for folder in (instance, None):  # with nothing but changelogs as well
        changed = cluster.instance("changed", state_of=folder, shape="retyped").start()
        assert changed.wait() == 2, changed.log()
        assert "the topology changed under its state" in changed.log()
        assert "store counts held str -> int, now str -> str" in changed.log()


def test_topics_that_do_not_fit_and_brokers_that_do_not_answer_are_told_at_the_start(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Nothing runs, and no topic is asked for twice. All three at a time, since one waits."""
    missing, unequal, away = make_cluster(), make_cluster("joined"), make_cluster()
    missing.admin.delete_topics([missing.topic("in")])
    wait_for(lambda: missing.topic("in") not in missing.admin.topics(), "the topic is gone")
    names = unequal.topic("names")
    unequal.admin.delete_topics([names])
    wait_for(lambda: names not in unequal.admin.topics(), "the topic is gone")
    unequal.admin.create_topics([NewTopic(names, PARTITIONS + 1, 1)])
    with PortReservation() as nobody:
        away.servers = f"127.0.0.1:{nobody.port}"
        more = ["--wait-for-broker", "5s"]
        clusters = missing, unequal, away
        instances = [cluster.instance("a", more=more).start() for cluster in clusters]
        codes = [instance.wait() for instance in instances]
    logs = [instance.log() for instance in instances]
    assert codes == [3, 2, 4], "\n".join(logs)
    assert missing.topic("in") in logs[0]
    assert f"{PARTITIONS + 1}" in logs[1]
    assert names in logs[1]
    assert f"(--wait-for-broker): cannot reach {away.servers}" in logs[2]
    assert "Is the broker running" in logs[2]
    assert not any("worker 0 started" in log for log in logs)
