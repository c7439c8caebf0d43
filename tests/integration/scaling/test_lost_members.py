"""``streamlet status`` names members that are gone, and tasks that wait for them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.learners.scenes import await_owners
from tests.integration.scaling.commands import Answer, operate
from tests.integration.scaling.scenes import Marks, process_id

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def status(cluster: Cluster, *words: str) -> Answer:
    """What ``streamlet status`` says."""
    return operate(cluster, "status", cluster.name, *words)


def names(document: dict[str, Any]) -> list[str]:
    """The instances of a status document, of which there is nothing but a member id left out."""
    return [one["name"] for one in document["instances"] if one["process_id"]]


def await_reported(cluster: Cluster, *instances: Instance) -> None:
    """Wait until each has said its name in the present generation: the others know it by that."""
    said = Marks(cluster)

    def all_have() -> bool:
        reports = [said.of(one) for one in instances]
        generation = status(cluster).document["group"]["generation"]
        return all(one is not None and one.generation >= generation for one in reports)

    wait_for(all_have, lambda: f"all have reported: {said.control.view}")


def await_without(cluster: Cluster, gone: Instance) -> Answer:
    """The checked status, once the group is stable without this instance."""

    def without() -> Answer | None:
        found = status(cluster, "--check")
        return found if found.code != 4 and gone.name not in names(found.document) else None

    found = wait_for(without, lambda: f"{gone.name} is gone\n{cluster.logs()}")
    assert found is not None
    return found


def test_tasks_that_wait_for_a_lost_member_are_shown_and_the_rebalance_names_it(
    make_cluster: Callable[..., Cluster],
) -> None:
    """The one that is lost has tasks of which nobody else has ever heard."""
    cluster = make_cluster("counting", scheduled_rebalance_max_delay_ms="600000")
    a, b = (cluster.instance(name).start() for name in "ab")
    await_owners(cluster, a, b)
    await_reported(cluster, a, b)
    theirs = sorted(str(t) for t, owner in cluster.owners().items() if owner.startswith("b-"))
    b.kill()
    found = await_without(cluster, b)
    assert (found.code, found.document["violations"]) == (0, [])
    waiting = found.document["unassigned"]
    assert [one["task"] for one in waiting] == theirs
    assert all(one["until_ms"] > time.time() * 1000 + 300_000 for one in waiting)
    assert found.document["group"]["last_rebalance"]["reason"] == "b-0 has gone"
    wait_for(lambda: "is planned: b-0 has gone" in a.log(), lambda: a.log())

    b.start()
    wait_for(lambda: status(cluster).document["unassigned"] == [], "b is back")
    await_owners(cluster, a, b)
    assert [a.stop(), b.stop()] == [0, 0]


def test_a_leader_that_is_gone_is_named_by_the_next_one(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting")
    a, b = (cluster.instance(name).start() for name in "ab")
    await_owners(cluster, a, b)
    await_reported(cluster, a, b)
    leader = status(cluster).document["group"]["leader"]
    first, second = (a, b) if leader == "a-0" else (b, a)
    first.kill()
    found = await_without(cluster, first)
    wait_for(
        lambda: f"is planned: {first.name}-0 has gone" in second.log(),
        lambda: f"{found}\n{second.log()}",
    )
    await_owners(cluster, second)
    assert second.stop() == 0


def test_members_have_names_while_the_group_rebalances(
    make_cluster: Callable[..., Cluster],
) -> None:
    """One that is stopped holds the rebalance up, which a newcomer has begun.

    It does so for ``rebalance.timeout.ms``; its session is longer than a newcomer takes to start.
    """
    cluster = make_cluster("counting", session_timeout_ms="120000")
    a, b = (cluster.instance(name).start() for name in "ab")
    await_owners(cluster, a, b)
    await_reported(cluster, a, b)
    known = {one.name: process_id(cluster, one) for one in (a, b)}
    [worker] = b.workers()
    os.kill(worker, signal.SIGSTOP)
    try:
        c = cluster.instance("c").start()

        def moving() -> dict[str, Any] | None:
            found = status(cluster).document
            return found if found["group"]["state"] == "PreparingRebalance" else None

        found = wait_for(moving, lambda: f"it rebalances\n{cluster.logs()}")
        assert found is not None
        shown = {one["name"]: one["process_id"] for one in found["instances"]}
        assert known.items() <= shown.items()
        members = {m["member"] for one in found["instances"] for m in one["members"]}
        assert {"a-0", "b-0"} <= members
    finally:
        os.kill(worker, signal.SIGCONT)
    await_owners(cluster, a, b, c)
    assert [one.stop() for one in (a, b, c)] == [0, 0, 0]
