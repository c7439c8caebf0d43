"""A new subtopology in front: task names mean other tasks to the old and the new program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.kafka.ports import NewTopic
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import LONG_SESSIONS, PARTITIONS, Cluster, Instance, wait_for
from tests.integration.chaos.test_failures import settled_once
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.chaos.topologies import SHAPES
from tests.integration.learners.scenes import assert_exact_in_the_end, await_owners

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: Exit code of an instance that does not fit those that run.
REFUSED = 5


def add_front(cluster: Cluster) -> None:
    """Make the topics that only the new program has."""
    names = [cluster.topic("front"), cluster.topic("front-counts")]
    cluster.admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])


def use(cluster: Cluster, shape: str) -> None:
    """Look at the tasks and folders of the cluster as this program numbers them."""
    cluster.topology = SHAPES[shape](cluster.name).topology()


def folders(cluster: Cluster, instance: Instance) -> set[str]:
    """Names of an instance's task folders with state."""
    return {path.parent.name for path in (instance.state / cluster.name).glob("*/db")}


def test_an_instance_whose_numbers_shifted_is_refused_while_others_run(
    make_cluster: Callable[..., Cluster],
) -> None:
    """The first of a rolling deploy: before it joins, with its folder as it was."""
    cluster = make_cluster("counting", **LONG_SESSIONS)
    add_front(cluster)
    a, b = (cluster.instance(name).start() for name in "ab")
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        await_owners(cluster, a, b)
        assert b.stop() == 0, b.log()
        before = folders(cluster, b)
        new = cluster.instance("new", shape="in_front", state_of=b).start()
        assert new.wait() == REFUSED, new.log()
        moved = f"topic {cluster.topic('in')} belongs to subtopology 1 here and to 0 there"
        assert moved in new.log()
        assert "in the instances that run (a)" in new.log()
        assert "Stop all instances" in new.log()
        assert "worker 0 started" not in new.log()
        assert folders(cluster, b) == before
        b.start()
        await_owners(cluster, a, b)
        assert "lost all tasks" not in a.log()
        assert_exact_in_the_end(cluster, [a, b], load)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("stranger", "are of another application under the same id"),
        ("retyped", "store counts has other types there than here (str -> str)"),
    ],
)
def test_another_application_under_the_same_id_is_refused_by_name(
    make_cluster: Callable[..., Cluster], shape: str, why: str
) -> None:
    """On a folder of its own, where no store could tell."""
    cluster = make_cluster("counting", **LONG_SESSIONS)
    others = [cluster.topic("others"), cluster.topic("others-out")]
    cluster.admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in others])
    a = cluster.instance("a").start()
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        await_owners(cluster, a)
        new = cluster.instance("new", shape=shape).start()
        assert new.wait() == REFUSED, new.log()
        assert why in new.log()
        assert "the instances that run (a)" in new.log()
        assert "worker 0 started" not in new.log()
        assert_exact_in_the_end(cluster, [a], load)
    if shape == "stranger":  # it may take the place of those that are stopped, not unnoticed
        assert a.stop() == 0, a.log()
        new.start()
        wait_for(lambda: "worker 0 started" in new.log(), new.log)
        said = new.log().partition(f"{cluster.name} ran another program before, with ")[2]
        assert "counts" in said.partition("this one has no topic and no store in common")[0]


def test_state_is_found_under_its_new_number_and_under_its_old_one_again(
    make_cluster: Callable[..., Cluster],
) -> None:
    """All are stopped before the new program starts; its folders are renamed, and back."""
    cluster = make_cluster("counting")
    add_front(cluster)
    old, load = settled_once(cluster)
    new = cluster.instance("new", shape="in_front", state_of=old)
    for instance, shape in ((new, "in_front"), (old, "counting")):
        load.send(1_000)
        load.flush()
        use(cluster, shape)
        instance.start()
        cluster.await_settled()
        assert instance.stop() == 0, instance.log()
        for partition in range(PARTITIONS):
            names = f"0_{partition}", f"1_{partition}"
            before, now = names if instance is new else reversed(names)
            assert f"state of task {before} is now {now}" in instance.log()
        assert "starts over" not in instance.log()
        assert ("state of task 0_0 is set aside" in instance.log()) is (instance is old)
        assert_counts_exact(cluster, contents(cluster, [instance]), load.produced)
    load.finish()


def test_of_two_programs_that_start_at_once_only_one_runs(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Neither finds the other in the group when it starts: the group refuses one of them."""
    cluster = make_cluster("counting")
    add_front(cluster)
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        both = [cluster.instance(shape, shape=shape).start() for shape in ("counting", "in_front")]
        ended = wait_for(
            lambda: [i for i in both if i.process is not None and i.process.poll() is not None],
            cluster.logs,
        )
        assert [instance.wait() for instance in ended] == [REFUSED], cluster.logs()
        assert "belongs to subtopology" in ended[0].log()
        (alive,) = set(both) - set(ended)
        use(cluster, alive.name)
        await_owners(cluster, alive)
        assert_exact_in_the_end(cluster, [alive], load)
