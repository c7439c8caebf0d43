"""Standbys that stand already move warm: to share the load, and to other racks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from streamlet.admin.snapshot import GroupSnapshot
from streamlet.admin.window import describe
from streamlet.assignor.values import Role
from streamlet.coordinator.transport import Transport
from streamlet.types import TaskId
from tests.integration.chaos.checks import go_on
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load
from tests.integration.learners.scenes import TALKATIVE, assert_exact_in_the_end, await_owners

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: Of two subtopologies: six tasks with state.
PARTITIONS = 3
#: No member dies here, so none is to be lost, with its warm copies, while a broker stands still.
PATIENT = {
    "num_standby_replicas": "1",
    "initial_assignment_delay_ms": "10000",
    "session_timeout_ms": "60000",
}


class Generations:
    """What the members of a cluster said and were assigned, by generation."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._transport = Transport(cluster.servers, client_id="look")
        self.seen: dict[int, GroupSnapshot] = {}

    def now(self) -> GroupSnapshot | None:
        """The group as it is, None while it rebalances."""
        live = describe(self._transport, self._cluster.name)
        if not live.stable:
            return None
        self.seen[live.newest.generation] = live
        return live

    def close(self) -> None:
        """End the connection."""
        self._transport.close()

    def cold(self) -> list[tuple[int, list[TaskId]]]:
        """Tasks that lost their warm standby, by generation: since all had been warm at a join."""
        tasks = set(self._cluster.tasks)
        since = next((n for n in sorted(self.seen) if tasks <= caught_up(self.seen[n])), None)
        assert since is not None, "there was no join at which all standbys were warm"
        found = {n: tasks - warm(live) for n, live in sorted(self.seen.items()) if n >= since}
        return [(generation, sorted(lost)) for generation, lost in found.items() if lost]


def caught_up(live: GroupSnapshot) -> set[TaskId]:
    """Tasks of which a member had a standby that had caught up when it joined."""
    return {
        task
        for member in live.members
        for task, copy in member.reported.copies.items()
        if copy.role is Role.STANDBY and copy.ready
    }


def warm(live: GroupSnapshot) -> set[TaskId]:
    """Tasks of which a member goes on with a standby that is warm, or with what it hands over."""
    return {
        task
        for member in live.members
        for task in member.assigned.standby
        if task in member.assigned.release
        or (task in member.reported.copies and member.reported.copies[task].ready)
    }


def standbys(live: GroupSnapshot) -> dict[str, frozenset[TaskId]]:
    """The standbys of each instance of one member."""
    return {member.name.removesuffix("-0"): member.assigned.standby for member in live.members}


@pytest.fixture
def make_generations() -> Iterator[Callable[[Cluster], Generations]]:
    made: list[Generations] = []

    def make(cluster: Cluster) -> Generations:
        made.append(Generations(cluster))
        return made[-1]

    yield make
    for generations in made:
        generations.close()


def await_standbys(
    cluster: Cluster, generations: Generations, names: str, fits: Callable[[GroupSnapshot], bool]
) -> None:
    """Wait until these instances run tasks, each task has one standby, and all of them fit.

    Looks at the group all the while, so that no generation of some length is missed.
    """

    def there() -> bool:
        live = generations.now()
        if live is None:
            return False
        counts = Counter(task for tasks in standbys(live).values() for task in tasks)
        running = {m.name[0] for m in live.members if Role.ACTIVE in dict(m.tasks).values()}
        return running == set(names) and counts == dict.fromkeys(cluster.tasks, 1) and fits(live)

    wait_for(
        there,
        lambda: f"{[standbys(live) for live in generations.seen.values()]}\n{cluster.logs()}",
    )


def started(cluster: Cluster, name: str, *options: str) -> Instance:
    return cluster.instance(name, more=(*TALKATIVE, *options)).start()


def test_a_third_instance_shares_the_standbys_that_stand_and_none_is_cold_meanwhile(
    make_cluster: Callable[..., Cluster],
    make_generations: Callable[[Cluster], Generations],
) -> None:
    cluster = make_cluster("counting", partitions=PARTITIONS, **PATIENT)
    generations = make_generations(cluster)
    a, b = (started(cluster, name) for name in "ab")
    with Load(cluster.servers, cluster.topic("in"), rate=500) as load:
        await_owners(cluster, a, b)
        await_standbys(cluster, generations, "ab", lambda _: True)
        go_on(load)
        c = started(cluster, "c")
        await_standbys(
            cluster,
            generations,
            "abc",
            lambda live: all(1 <= len(tasks) <= 3 for tasks in standbys(live).values()),
        )
        assert generations.cold() == []
        assert_exact_in_the_end(cluster, [a, b, c], load)


def test_standbys_leave_the_rack_of_the_active_when_their_successors_are_warm(
    make_cluster: Callable[..., Cluster],
    make_generations: Callable[[Cluster], Generations],
) -> None:
    config = {**PATIENT, "rack_aware_assignment_tags": "rack"}
    cluster = make_cluster("counting", partitions=PARTITIONS, **config)
    generations = make_generations(cluster)
    racks = {"a": "x", "b": "x", "c": "y"}

    def apart(live: GroupSnapshot) -> bool:
        racks_of = {member.name: member.reported.tags["rack"] for member in live.members}
        active = {
            t: racks_of[m.name] for m in live.members for t, role in m.tasks if role == "active"
        }
        return all(
            active.get(task) != racks_of[member.name]
            for member in live.members
            for task in member.assigned.standby
        )

    a, b = (started(cluster, name, "--tag", f"rack={racks[name]}") for name in "ab")
    with Load(cluster.servers, cluster.topic("in"), rate=500) as load:
        await_owners(cluster, a, b)
        await_standbys(cluster, generations, "ab", lambda _: True)
        go_on(load)
        c = started(cluster, "c", "--tag", "rack=y")
        await_standbys(cluster, generations, "abc", apart)
        assert generations.cold() == []
        assert_exact_in_the_end(cluster, [a, b, c], load)
