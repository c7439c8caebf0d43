"""Faults of all kinds at once, on the application ``waiting``, and what became of it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

import attrs

from streamlet.control.topic import is_control_topic
from streamlet.testing import FaultProxy, KafkaBroker
from tests.integration.chaos.deliveries import DeliveryFailures, Failures, TransactionFailures
from tests.integration.chaos.faults import Faults
from tests.integration.chaos.forger import Forger
from tests.integration.chaos.support import Cluster
from tests.integration.chaos.topics import Load, read_all
from tests.integration.chaos.waiting import KEYS
from tests.integration.chaos.waiting_checks import fill_tables, wrong_stores

_Kind: TypeAlias = Callable[[Faults], None]
#: Of processes, and of a broker; those of several brokers.
SHORT = (Faults.kill_worker, Faults.add_host, Faults.kill_host)
LONG = (
    *SHORT,
    Faults.freeze,
    Faults.freeze_host,
    Faults.lose_host,
    Faults.fill_disk,
    Faults.slow_disk,
    Faults.restart_broker,
    Faults.stop_host,
    Faults.drain_host,
)
BROKERS = (Faults.lose_broker, Faults.freeze_broker)
#: One batch of so many is not delivered as it should, and one transaction does not end so.
_ONE_OF, _ONE_END_OF = 60, 8
#: How much longer faults are made until requests of each kind have failed, s.
_LONGER_S = 600
#: A record whose answer is lost times out: shorter than a producer waits for an answer.
_RETRY = ("--set", "producer.request.timeout.ms=2000", "--set", "producer.message.timeout.ms=6000")


@attrs.frozen
class Aftermath:
    """What a storm left.

    Attributes:
        records: how many the input has, each with a number of its own.
        faults: made, by name; ``requests``: the proxy's, by kind.
        forged: words that another program wrote in the tasks' name.
        wrong: sums of stores and outputs that are not those of the input: wanted, and found.
        lost: numbers that no output has; ``doubled``: that several have.
        ended: instances that did not end well.
        seconds: how long each part of the storm took, s.
    """

    records: int
    faults: dict[str, int]
    requests: dict[str, int]
    forged: int
    wrong: dict[str, tuple[int, int]]
    lost: list[int]
    doubled: list[int]
    ended: list[str]
    seconds: dict[str, float]


def storm(
    cluster: Cluster,
    broker: KafkaBroker,
    seed: int,
    minutes: float,
    kinds: Sequence[_Kind] = LONG,
    *,
    guarantees: Sequence[str] = ("at_least_once",),
) -> Aftermath:
    """Make faults for some time, each kind at least once; then all is to be exact.

    Another program writes in the name of the tasks meanwhile, unless transactions tell what counts.

    Where there are several ``guarantees``, each instance has one of them.
    """
    once, transactions = [*guarantees] == ["exactly_once"], "exactly_once" in guarantees
    took = _Phases()
    fill_tables(cluster)
    dice = random.Random(seed)
    with ExitStack() as stack:
        proxy = stack.enter_context(FaultProxy(cluster.servers, seed=seed))
        through = ("--bootstrap-servers", proxy.bootstrap_servers, *_RETRY)
        several = guarantees if len(guarantees) > 1 else ()
        faults = Faults(cluster, broker, dice, through, several)
        cluster.await_settled()  # from here on each record meets its rows
        failing = _failing(proxy, cluster, transactions)
        rows = Load(cluster.servers, cluster.topic("rows"), keys=KEYS, rate=50, seed=seed)
        load = Load(cluster.servers, cluster.topic("in"), keys=KEYS, rate=500, seed=seed)
        forger = None if transactions else stack.enter_context(Forger(cluster, seed))
        with rows, load:
            took.next("starting")
            for fault in _chosen(kinds, minutes, dice, failing):
                faults.make(fault)
            took.next("faults")
            for one in failing:
                one.end()
            rows.finish()
            load.finish()
        cluster.await_settled()
        took.next("settling")
        codes = {one.name: one.stop() for one in faults.instances}
        took.next("stopping")
    lost, doubled = _compared(cluster)
    wrong = wrong_stores(cluster, faults.instances, once=once)
    took.next("comparing")
    return Aftermath(
        load.total,
        dict(faults.made),
        {kind: count for one in failing for kind, count in one.kinds.items()},
        0 if forger is None else forger.words,
        wrong,
        lost,
        doubled,
        [name for name, code in codes.items() if code],
        took.seconds,
    )


def _failing(proxy: FaultProxy, cluster: Cluster, transactions: bool) -> list[Failures]:
    """What makes requests of the cluster fail."""
    failing: list[Failures] = [DeliveryFailures(proxy, _of(cluster), 1 / _ONE_OF)]
    if transactions:
        failing.append(TransactionFailures(proxy, 1 / _ONE_END_OF))
    return failing


class _Phases:
    """How long each part of a storm takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.monotonic()

    def next(self, ended: str) -> None:
        """Note the part that has ended, and begin another."""
        now = time.monotonic()
        self.seconds[ended], self._began = round(now - self._began, 1), now


def _chosen(
    kinds: Sequence[_Kind], minutes: float, dice: random.Random, failing: Sequence[Failures]
) -> Iterator[_Kind]:
    """Faults in a random order: each kind once, and others as long as there is time.

    If there was any it is prolonged until requests of each kind have failed, but not for ever.
    """
    begin = time.monotonic()
    yield from dice.sample(kinds, len(kinds))
    while True:
        for kind in dice.sample(kinds, len(kinds)):
            left_s = minutes * 60 - (time.monotonic() - begin)
            rare = [kind for one in failing for kind, count in one.kinds.items() if not count]
            if left_s <= 0:
                if not (minutes and rare and left_s > -_LONGER_S):
                    return
                print(f"longer, until this has happened: {', '.join(rare)}", flush=True)
            yield kind


def _of(cluster: Cluster) -> Callable[[str], bool]:
    return lambda topic: topic.startswith(cluster.name) and not is_control_topic(topic)


def _compared(cluster: Cluster) -> tuple[list[int], list[int]]:
    """The input's numbers that the output ``passed`` lacks, and those that it has several times."""
    numbers: dict[str, Counter[Any]] = {
        name: Counter(
            record.number
            for record in read_all(
                cluster.servers, cluster.topic(name), range(cluster.partition_count)
            )
        )
        for name in ("in", "passed")
    }
    there, passed = numbers["in"], numbers["passed"]
    return sorted(there - passed), sorted(passed - there)
