"""Commands that watch say so when what they wait for will not happen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.learners.scenes import assert_exact_in_the_end, await_owners
from tests.integration.scaling.commands import (
    ON_THE_WAY,
    answer,
    assert_left_well,
    await_words,
    begin,
    operate,
    scale_down,
)
from tests.integration.scaling.scenes import (
    NEVER_READY,
    Marks,
    assert_nothing_lost,
    process_id,
)

WITHDRAWN = (
    "b stays: its mark was removed",
    "b ended before it had handed over its tasks",
)

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def cancelled(cluster: Cluster, leaver: Instance) -> None:
    """Another operator takes the scale-down back."""
    found = scale_down(cluster, "--cancel", "--name", leaver.name)
    assert (found.code, found.document["leaving"]) == (0, []), found


def stopped_and_started(_: Cluster, leaver: Instance) -> None:
    """Its host restarts it."""
    assert leaver.stop() == 0
    leaver.start()


def killed_and_started(_: Cluster, leaver: Instance) -> None:
    """It dies, and its host restarts it."""
    leaver.kill()
    leaver.start()


@pytest.mark.parametrize("withdraw", [cancelled, stopped_and_started, killed_and_started])
def test_a_watching_scale_down_says_that_its_mark_is_gone(
    make_cluster: Callable[..., Cluster], withdraw: Callable[[Cluster, Instance], None]
) -> None:
    """Learners never say that they are ready: without more it would watch for ever."""
    cluster = make_cluster("counting", **NEVER_READY)
    a, b = (cluster.instance(name).start() for name in "ab")
    with Load(cluster.servers, cluster.topic("in"), rate=200, beat_s=SLOW_BEAT_S) as load:
        await_owners(cluster, a, b)
        marks = Marks(cluster)
        words = ("scale-down", cluster.name, "--name", "b", "--yes", "--json", "--wait")
        process = begin(cluster, *words)
        await_words(process, *ON_THE_WAY)
        marks.await_leaving(b, True)
        withdraw(cluster, b)
        found = answer(process)
        assert found.code == 1, (found, cluster.logs())
        assert found.error.startswith(WITHDRAWN), found
        wait_for(lambda: marks.names() == set(), "b is not marked any more")
        assert_nothing_lost(cluster, [a, b], load)


def test_an_old_host_stays_when_the_new_one_is_lost_and_the_command_says_who_has_the_tasks(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Alone and marked it would end, and the application with it."""
    cluster = make_cluster("counting", **NEVER_READY)
    old = cluster.instance("old").start()
    with Load(cluster.servers, cluster.topic("in"), rate=200, beat_s=SLOW_BEAT_S) as load:
        cluster.await_running()
        new, marks = cluster.instance("new").start(), Marks(cluster)
        wait_for(lambda: marks.of(new) is not None, lambda: f"it joins\n{new.log()}")
        process = begin(cluster, *swap(cluster, "--join-timeout", "5s"))
        await_words(process, *ON_THE_WAY)
        new.kill()
        found = answer(process)
        assert found.code == 4, (found, cluster.logs())
        assert (found.document["done"], found.document["tasks"]) == (False, {"old": 8})
        assert found.document["problem"] == "new is gone and did not come back in time; old stays"
        assert marks.names() == set()
        assert old.process is not None
        assert old.process.poll() is None
        assert "lost all tasks" not in old.log()
        await_owners(cluster, old)
        assert_nothing_lost(cluster, [old], load)


def test_a_swap_goes_on_when_the_new_host_is_back_though_the_command_was_killed(
    make_cluster: Callable[..., Cluster],
) -> None:
    """The leader sees to it that the old one stays meanwhile."""
    cluster = make_cluster("counting", learner_ready_linger_ms="20000")
    # Only the new host dies; the old one is to outlive a machine that stands still for a while.
    old = cluster.instance("old", more=["--set", "session.timeout.ms=60000"]).start()
    with Load(cluster.servers, cluster.topic("in"), rate=200, beat_s=SLOW_BEAT_S) as load:
        cluster.await_running()
        new = cluster.instance("new").start()
        process = begin(cluster, *swap(cluster))
        await_words(process, *ON_THE_WAY)
        new.kill()
        await_words(process, "new is gone")
        process.kill()
        answer(process)
        assert Marks(cluster).names() == {"old"}
        found = operate(cluster, "status", cluster.name).document["instances"]
        [waits_for] = [one["leaving"]["waits_for"] for one in found]
        assert waits_for in (["new"], [process_id(cluster, new)])
        new.start()
        assert_left_well([old], [new])
        await_owners(cluster, new)
        assert_exact_in_the_end(cluster, [new], load)


def swap(cluster: Cluster, *more: str) -> tuple[str, ...]:
    """The words of a ``streamlet replace``."""
    hosts = ("--old", "old", "--new", "new")
    return ("replace", cluster.name, *hosts, "--yes", "--json", *more)
