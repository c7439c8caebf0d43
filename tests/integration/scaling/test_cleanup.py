"""State that tasks leave behind where they ran is deleted, once others have it all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.state.listing import listed
from streamlet.types import TaskId
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.learners.scenes import assert_exact_in_the_end, await_owners

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def on_disk(cluster: Cluster, instance: Instance) -> dict[TaskId, int | None]:
    """Tasks whose state lies in an instance's folder, with who has it open."""
    found = listed(instance.state, cluster.name)
    return {one.folder.task: one.folder.holder for one in found}


def test_what_was_handed_over_is_deleted_and_can_come_back(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting", state_cleanup_delay_ms="1000")
    a = cluster.instance("a").start()
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        cluster.await_running()
        assert on_disk(cluster, a).keys() == set(cluster.tasks)
        b = cluster.instance("b").start()
        await_owners(cluster, a, b)

        def apart() -> bool:
            folders = [on_disk(cluster, one) for one in (a, b)]
            tasks = [folder.keys() for folder in folders]
            used = all(holder is not None for folder in folders for holder in folder.values())
            return used and not tasks[0] & tasks[1] and tasks[0] | tasks[1] == set(cluster.tasks)

        wait_for(apart, lambda: f"each has its own:\n{cluster.logs()}")
        wait_for(lambda: "others have it" in a.log(), a.log)  # said when it is done
        b.kill()
        await_owners(cluster, a)
        assert_exact_in_the_end(cluster, [a], load)
    assert b.state.exists()
    assert on_disk(cluster, b), "nobody cleans up where nobody runs"
