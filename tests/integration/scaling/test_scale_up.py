"""Many instances join a loaded application at once; on a real broker."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from streamlet.admin.status_look import StatusLook
from streamlet.config import Settings
from streamlet.coordinator.transport import Transport
from tests.integration.chaos.support import SELDOM_S, Cluster, Watch, wait_for
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.windows import window

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: All are there before the first learner speaks, however slowly processes start.
SETTINGS = {
    "max.learners.per.member": "2",
    "max.learners.per.group": "6",
    "learner.ready.linger.ms": "20000",
}


def test_four_instances_share_what_one_had_with_one_move_each(
    make_cluster: Callable[..., Cluster],
) -> None:
    """16 tasks: 12 move, once, behind a learner each; no more learn at a time than may."""
    settings = {key.replace(".", "_"): value for key, value in SETTINGS.items()}
    cluster = make_cluster("counting", partitions=8, session_timeout_ms="60000", **settings)
    first, *rest = [cluster.instance(name, processes=0) for name in "abcd"]
    watch, rounds = Watch(cluster), Rounds(cluster)
    try:
        first.start()
        with Load(cluster.servers, cluster.topic("in"), rate=300, beat_s=SLOW_BEAT_S) as load:
            cluster.await_running()
            watch.start()
            for instance in rest:
                instance.start()
            wait_for(
                lambda: rounds.look() and _shares(cluster) == [4] * 4,
                lambda: f"four share the tasks: {cluster.owners()}\n{cluster.logs()}",
                timeout_s=300,
                pause_s=SELDOM_S,
            )
            load.finish()
        cluster.await_settled()
        moments = watch.finish()
    finally:
        rounds.close()
    assert rounds.violations == []
    # Rebalances are quick: a look may miss all of them but the longest.
    assert max(rounds.learning, default=0) <= 6
    owners = {task: [m.commits[task].metadata for m in moments] for task in cluster.tasks}
    moves = Counter(
        task
        for task, seen in owners.items()
        for one, other in itertools.pairwise(seen)
        if one is not None and other is not None and one.by != other.by
    )
    assert sorted(moves.values()) == [1] * 12, f"{moves}\n{cluster.logs()}"


def _shares(cluster: Cluster) -> list[int]:
    return list(Counter(cluster.owners().values()).values())


class Rounds:
    """What is seen of each rebalance, checked against the rules that hold in a live group."""

    def __init__(self, cluster: Cluster) -> None:
        self._transport = Transport(cluster.servers, client_id="look")
        settings = Settings.load(SETTINGS)
        seen = window(self._transport, cluster.admin, cluster.name, settings)
        self._look = StatusLook(seen, check=True)
        self.violations: list[object] = []
        self.learning: list[int] = []

    def look(self) -> bool:
        """Look once the group is stable; always True."""
        found = self._look.now()
        tasks = [t for i in found["instances"] for m in i["members"] for t in m["tasks"]]
        self.learning.append(sum(task["isLearner"] for task in tasks))
        self.violations += found["violations"]
        return True

    def close(self) -> None:
        """Hang up."""
        self._transport.close()
