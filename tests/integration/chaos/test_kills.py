"""Kill -9 of workers and instances under load: nothing is lost, and no state is wrong."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

import pytest

from streamlet.types import TaskId
from tests.integration.chaos.checks import assert_counts_exact, contents, counts_of
from tests.integration.chaos.states import Copy, assert_agrees, read_copies
from tests.integration.chaos.support import PARTITIONS, Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load, last_numbers, read_all

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


class Havoc:
    """Kills at random moments, worker or whole instance, and starts again.

    An instance that was killed comes back on its own folder or on an empty one, in turns. What is
    left of it on disk is looked at meanwhile.
    """

    def __init__(self, cluster: Cluster, instances: list[Instance], dice: random.Random) -> None:
        self._cluster = cluster
        self._dice = dice
        self.instances = instances
        self._turns = 0
        #: Kills of workers since an instance was started; a supervisor gives up after six.
        self._spared: Counter[str] = Counter()
        #: Folders of dead instances that were looked at.
        self.copies = 0

    def round(self) -> None:
        """One fault."""
        moment = time.monotonic() + self._dice.uniform(0.2, 2.0)
        at = self._dice.randrange(len(self.instances))
        victim = self.instances[at]
        whole = self._dice.random() < 0.6 or self._spared[victim.name] > 2
        wait_for(lambda: time.monotonic() >= moment, "the moment")
        pids = victim.await_workers()
        print(f"kill -9 {victim.name} {'as a whole' if whole else 'one worker'}")
        if not whole:
            self._spared[victim.name] += 1
            victim.kill_worker(self._dice.choice(pids))
            return
        self._spared[victim.name] = 0
        victim.kill()
        self.inspect(victim)
        self._turns += 1
        old = victim if self._turns % 2 else None
        self.instances[at] = self._cluster.instance(victim.name, len(pids), old).start()

    def inspect(self, dead: Instance) -> None:
        """Stores and positions of a dead instance agree."""
        for copy in read_copies(self._cluster, dead.state, dead.folder / "copy"):
            assert_agrees(self._cluster, copy)
            self.copies += 1


def test_kills_under_load_lose_nothing_and_leave_exact_state(
    make_cluster: Callable[..., Cluster],
    seed: int,
    rounds: int,
) -> None:
    """Also on an empty folder; behind the repartition each over-count is a record read twice."""
    cluster = make_cluster("counting", repartition_purge_interval_ms="1d")
    instances = [cluster.instance("a", 2).start(), cluster.instance("b").start()]
    with Load(cluster.servers, cluster.topic("in"), seed=seed) as load:
        cluster.await_running()
        havoc = Havoc(cluster, instances, random.Random(seed))
        for _ in range(rounds):
            havoc.round()
        true = load.finish()
    cluster.await_settled()
    assert [instance.stop() for instance in havoc.instances] == [0, 0], cluster.logs()

    copies = contents(cluster, havoc.instances)
    assert sorted(copies) == list(cluster.tasks)
    assert_counts_exact(cluster, copies, true)
    assert_groups_explained(cluster, copies, true)
    print(f"{load.total} records, {havoc.copies} folders of dead instances looked at")
    assert havoc.copies > 0


def test_kills_leave_a_join_and_its_table_exact(
    make_cluster: Callable[..., Cluster], seed: int, rounds: int
) -> None:
    """A task with two inputs commits both at once; a table is restored from its own topic."""
    cluster = make_cluster("joined")
    instances = [cluster.instance("a").start(), cluster.instance("b").start()]
    rows = Load(cluster.servers, cluster.topic("names"), keys=50, rate=200, seed=seed)
    rows.send(2_000)
    events = Load(cluster.servers, cluster.topic("in"), keys=50, rate=1_000, seed=seed)
    rows.flush()
    cluster.await_settled()  # from here on each event meets a row
    with rows, events:
        havoc = Havoc(cluster, instances, random.Random(seed + 1))
        for _ in range(max(1, rounds // 2)):
            havoc.round()
        true = events.finish()
        rows.finish()
    cluster.await_settled()
    assert [instance.stop() for instance in havoc.instances] == [0, 0], cluster.logs()

    copies = contents(cluster, havoc.instances)
    assert sorted(copies) == list(cluster.tasks)
    assert_counts_exact(cluster, copies, true)
    newest = last_numbers(read_all(cluster.servers, cluster.topic("names"), range(PARTITIONS)))
    assert counts_of(copies, "names") == newest


def assert_groups_explained(
    cluster: Cluster, copies: dict[TaskId, Copy], true: Counter[str]
) -> None:
    """All records are in the repartition topic, some twice, and a group counts each one once."""
    topic = cluster.topic("groups-repartition")
    passed = read_all(cluster.servers, topic, range(PARTITIONS))
    assert sum(not record.offset for record in passed) == PARTITIONS, "some are deleted"
    written = Counter(record.key.decode() for record in passed)
    once = Counter(key for key, _ in {(record.key.decode(), record.number) for record in passed})
    wanted: Counter[str] = Counter()
    for key, count in true.items():
        wanted[key[-1]] += count
    assert once == wanted, "a record is missing from the repartition topic"
    groups = counts_of(copies, "groups")
    assert groups == wanted, "a group counts other records than it was sent"
    replayed = {key: written[key] - wanted[key] for key in sorted(wanted)}
    print(f"replayed upstream, dropped behind the repartition: {replayed}")
    assert last_numbers(
        read_all(cluster.servers, cluster.topic("groups"), range(PARTITIONS))
    ) == dict(wanted)
