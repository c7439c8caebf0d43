"""Repartition topics with prefixes: every store of every subtopology is exact, whatever fails."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest

from streamlet.testing import KafkaBroker
from tests.integration.chaos.chained import assert_all_exact, rows_of_digits
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: Longer than the session time-out.
FROZEN_S = 8.0


class Faults:
    """Faults of a cluster, each at a random moment; at least one instance goes on."""

    def __init__(self, cluster: Cluster, broker: KafkaBroker, dice: random.Random) -> None:
        self._cluster, self._broker, self._dice = cluster, broker, dice
        self.instances = [cluster.instance("a", 2).start(), cluster.instance("b").start()]
        self._names = iter(f"c{n}" for n in range(10_000))
        self.made: Counter[str] = Counter()

    def make(self, fault: Callable[[Faults], None]) -> None:
        """One of them, within two seconds."""
        moment = time.monotonic() + self._dice.uniform(0.2, 2.0)
        wait_for(lambda: time.monotonic() >= moment, "the moment")
        print(fault.__name__, flush=True)
        self.made[fault.__name__] += 1
        fault(self)

    def _chosen(self) -> Instance:
        return self._dice.choice(self.instances)

    def kill_worker(self) -> None:
        """Its supervisor starts another."""
        victim = self._chosen()
        victim.kill_worker(self._dice.choice(victim.await_workers()))

    def kill_host(self) -> None:
        """It comes back on its own folder."""
        self._replace(self._chosen(), keep=True)

    def lose_host(self) -> None:
        """It comes back on an empty folder."""
        self._replace(self._chosen(), keep=False)

    def freeze(self) -> None:
        """A worker loses its tasks to others, and then goes on for a moment as a zombie."""
        pid = self._dice.choice(self._chosen().await_workers())
        os.kill(pid, signal.SIGSTOP)
        until = time.monotonic() + FROZEN_S
        wait_for(lambda: time.monotonic() > until, "longer than its session")
        os.kill(pid, signal.SIGCONT)

    def add_host(self) -> None:
        """Tasks are handed over to it."""
        self.instances.append(self._cluster.instance(next(self._names)).start())

    def stop_host(self) -> None:
        """One fewer, if there are several; it must end well."""
        if len(self.instances) > 2:
            leaver = self._chosen()
            self.instances.remove(leaver)
            assert leaver.stop() == 0, leaver.log()

    def restart_broker(self) -> None:
        """All connections end, and deliveries with them."""
        self._broker.restart()

    def _replace(self, victim: Instance, keep: bool) -> None:
        victim.await_workers()
        victim.kill()
        self.instances.remove(victim)
        again = self._cluster.instance(victim.name, 1, victim if keep else None)
        self.instances.append(again.start())


ALL = (
    Faults.kill_worker,
    Faults.add_host,
    Faults.kill_host,
    Faults.freeze,
    Faults.lose_host,
    Faults.restart_broker,
    Faults.stop_host,
    Faults.kill_worker,
)


def test_every_store_behind_repartitions_is_exact_whatever_fails(
    make_cluster: Callable[..., Cluster], kafka_broker: KafkaBroker, seed: int, rounds: int
) -> None:
    """Also on a fresh host that restores all of it. Six rounds make each fault once."""
    cluster = make_cluster("chained")
    dice = random.Random(seed)
    rows_of_digits(cluster)
    faults = Faults(cluster, kafka_broker, dice)
    cluster.await_settled()  # from here on each event meets a row
    with Load(cluster.servers, cluster.topic("in"), rate=1_000, seed=seed) as load:
        for _ in range(max(1, rounds // 6)):
            for fault in dice.sample(ALL, len(ALL)):
                faults.make(fault)
        true = load.finish()
    cluster.await_settled()
    assert [one.stop() for one in faults.instances] == [0] * len(faults.instances), cluster.logs()
    assert_all_exact(cluster, [one for one in cluster.instances if one in faults.instances], true)

    fresh = cluster.instance("fresh").start()
    wait_for(
        lambda: all(owner.startswith("fresh-") for owner in cluster.owners().values()),
        lambda: f"it has all tasks\n{fresh.log()}",
    )
    assert fresh.stop() == 0, fresh.log()
    assert_all_exact(cluster, [fresh], true)
    print(f"{load.total} records, {dict(faults.made)}")
