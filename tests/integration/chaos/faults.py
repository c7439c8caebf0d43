"""Faults of a live cluster, each at a random moment."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence

from streamlet.testing import KafkaBroker
from tests.integration.chaos.slow_disk import mark_of
from tests.integration.chaos.support import Cluster, Instance, limit_files, wait_for

#: Longer than the session time-out.
FROZEN_S = 8.0


class Faults:
    """Faults of a cluster, each at a random moment; at least one instance goes on.

    Args:
        cluster: of which two instances are started.
        broker: it may be restarted.
        dice: which faults, of whom, and when.
        more: options of each instance.
        guarantees: each instance has one of these, another one after ``switch_host``; without any
            it is that of the cluster.
    """

    def __init__(
        self,
        cluster: Cluster,
        broker: KafkaBroker,
        dice: random.Random,
        more: Sequence[str] = (),
        guarantees: Sequence[str] = (),
    ) -> None:
        self._cluster, self._broker, self._dice, self._more = cluster, broker, dice, more
        self._others = {one: guarantees[number - 1] for number, one in enumerate(guarantees)}
        self._guarantees = dict[Instance, str]()
        self.instances = [self._started("a", 2), self._started("b")]
        self._names = iter(f"c{n}" for n in range(10_000))
        self.made: Counter[str] = Counter()

    def make(self, fault: Callable[[Faults], None]) -> None:
        """One of them, within two seconds."""
        self._pause(self._dice.uniform(0.2, 2.0))
        print(fault.__name__, flush=True)
        self.made[fault.__name__] += 1
        fault(self)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        wait_for(lambda: time.monotonic() > until, "some time to be over")

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
        self._pause(FROZEN_S)
        os.kill(pid, signal.SIGCONT)

    def freeze_host(self) -> None:
        """All of an instance stands still, for longer than its session, and goes on."""
        victim = self._chosen()
        pids = victim.await_workers()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self._pause(FROZEN_S)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def add_host(self) -> None:
        """Tasks are handed over to it."""
        self.instances.append(self._started(next(self._names)))

    def stop_host(self) -> None:
        """One fewer; it must end well."""
        leaver = self._leaver()
        assert leaver.stop() == 0, leaver.log()

    def switch_host(self) -> None:
        """It is restarted under the other guarantee; it must end well."""
        victim = self._chosen()
        assert victim.stop() == 0, victim.log()
        self.instances.remove(victim)
        other = self._others[self._guarantees[victim]]
        self.instances.append(self._started(victim.name, state_of=victim, guarantee=other))

    def drain_host(self) -> None:
        """One fewer, which hands all over first."""
        leaver = self._leaver()
        leaver.await_workers()
        leaver.drain()
        assert leaver.wait() == 0, leaver.log()

    def _leaver(self) -> Instance:
        """One that is to end; another is added first where there are only two."""
        if len(self.instances) <= 2:
            self.add_host()
        leaver = self._chosen()
        self.instances.remove(leaver)
        return leaver

    def fill_disk(self) -> None:
        """No file of a worker grows any more, for a while."""
        pid = self._dice.choice(self._chosen().await_workers())
        with contextlib.suppress(ProcessLookupError):
            limit_files(pid, 16_384)
            self._pause(FROZEN_S)
            limit_files(pid, resource.RLIM_INFINITY)

    def slow_disk(self) -> None:
        """What a worker writes to its local stores takes long, for a while."""
        pid = self._dice.choice(self._chosen().await_workers())
        mark = mark_of(self._cluster.folder, pid)
        mark.touch()
        self._pause(FROZEN_S)
        mark.unlink()

    def lose_broker(self) -> None:
        """Others lead its partitions; it comes back."""
        node = self._dice.choice(self._broker.brokers)
        node.kill()
        self._pause(FROZEN_S)
        node.start()

    def freeze_broker(self) -> None:
        """One broker stands still, and goes on."""
        node = self._dice.choice(self._broker.brokers)
        node.signal(signal.SIGSTOP)
        self._pause(FROZEN_S)
        node.signal(signal.SIGCONT)

    def restart_broker(self) -> None:
        """All connections end, and deliveries with them."""
        self._broker.restart()

    def _replace(self, victim: Instance, keep: bool) -> None:
        victim.await_workers()
        victim.kill()
        self.instances.remove(victim)
        state_of, guarantee = victim if keep else None, self._guarantees.get(victim)
        self.instances.append(self._started(victim.name, state_of=state_of, guarantee=guarantee))

    def _started(
        self,
        name: str,
        processes: int = 1,
        state_of: Instance | None = None,
        guarantee: str | None = None,
    ) -> Instance:
        """Start an instance, under that guarantee or any."""
        own = self._dice.choice([*self._others]) if self._others and not guarantee else guarantee
        more = [*self._more, *(("--set", f"processing.guarantee={own}") if own else ())]
        made = self._cluster.instance(name, processes, state_of, more=more)
        if own:
            self._guarantees[made] = own
        return made.start()
