"""Delays the ends of transactions beyond their time-out: ``python -m tests.faults.late_ends``.

librdkafka's transactions are of version 1, in which an EndTxn that was late on the way can end a
later transaction of the same epoch (KIP-890). Each run is a transaction whose end arrives when its
producer has given it up, not knowing whether it counts, and has gone on: with a new epoch, from the
position that is committed. Others are given up while they are open, which a late end of an earlier
one could commit. In the end each record is there once, in order, for a reader of committed records.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import attrs

from streamlet.clock import SystemClock
from streamlet.coordinator.messages import OffsetCommit
from streamlet.coordinator.ports import fetch_committed
from streamlet.coordinator.transport import Transport
from streamlet.errors import UndeliveredError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from streamlet.kafka.transactions import TransactionalSink
from streamlet.testing import Fault, FaultProxy, KafkaBroker
from streamlet.types import TopicPartition
from tests.integration.chaos.topics import read_all

#: How long an end may take, ms, and by how much ends are late.
_PATIENCE_MS = 400
_DELAYS_MS = (500, 700, 1_000)
#: One end of so many is late, and one transaction of so many is given up before its end.
_ONE_OF, _ONE_OPEN_OF = 2, 3
_TIMEOUT_MS = 60_000


@attrs.define
class Tally:
    """Figures of a run: transactions, those that were not known to be committed, late ends."""

    transactions: int = 0
    unknown: int = 0
    late: int = 0
    records: int = 0
    wrong: list[str] = attrs.field(factory=list)


class Producer:
    """Writes 0, 1, 2, … to a topic by transactions, each with the position behind its records.

    Args:
        servers: the way that its requests take.
        direct: another to the same brokers.
        name: its topic and group.
        dice: how many records each transaction has.
    """

    def __init__(self, servers: str, direct: str, name: str, dice: random.Random) -> None:
        self._name, self._dice = name, dice
        self._at = TopicPartition(name, 0)
        self._sink = TransactionalSink(
            name, _TIMEOUT_MS, servers, {"client.id": name, "message.timeout.ms": 30_000}
        )
        self._transport = Transport(direct, client_id=name)
        self._next = 0
        self.tally = Tally()

    def write(self) -> None:
        """One transaction; what does not end by a commit that is known is given up."""
        behind = self._next + self._dice.randint(1, 3)
        self.tally.transactions += 1
        try:
            numbers = [number.to_bytes(8, "big") for number in range(self._next, behind)]
            self._sink.send(
                OutgoingRecords(self._name, [b"key"] * len(numbers), numbers, partitions=0)
            )
            if not self._dice.randrange(_ONE_OPEN_OF):
                self._sink.flush(_TIMEOUT_MS)
                time.sleep(self._dice.uniform(0, max(_DELAYS_MS) / 1_000))
                self._begin_again()
                return
            offsets = {self._at: (behind, "")}
            self._sink.seal(offsets)
            code = self._sink.commit(OffsetCommit(self._name, -1, "", None, offsets), _PATIENCE_MS)
        except UndeliveredError:
            code = -1  # it has no epoch yet
        if code:
            self.tally.unknown += 1
            self._begin_again()
        else:
            self._next = behind

    def _begin_again(self) -> None:
        """Another epoch, and the position that is committed."""
        self._sink.reset()
        self._next = self._committed()

    def _committed(self) -> int:
        found = fetch_committed(
            self._transport,
            self._name,
            [self._at],
            timeout_ms=_TIMEOUT_MS,
            clock=SystemClock(),
            pause=threading.Event().wait,
        )
        return max(found[self._at].offset, 0)

    def finish(self, servers: str) -> None:
        """End; what the topic has is what was committed."""
        self._begin_again()
        self._sink.close()
        self._transport.close()
        found = [record.number for record in read_all(servers, self._name, [0])]
        self.tally.records = len(found)
        if found != list(range(self._next)):
            at = next((i for i, n in enumerate(found) if n != i), len(found))
            self.tally.wrong.append(
                f"{self._name}: {len(found)} records, {self._next} committed; at {at}: "
                f"{found[max(at - 3, 0) : at + 6]}"
            )


def run(servers: str, runs: int, seed: int, producers: int) -> Tally:
    """Have so many ends come late, of so many producers."""
    prefix = f"late-{uuid.uuid4().hex[:6]}"
    names = [f"{prefix}-{number}" for number in range(producers)]
    admin = KafkaAdmin(servers)
    admin.create_topics([NewTopic(name, 1) for name in names])
    with FaultProxy(servers, seed=seed) as proxy, ThreadPoolExecutor(producers) as pool:
        late = [
            proxy.delay("EndTxn", ms, times=None, probability=1 / len(_DELAYS_MS) / _ONE_OF)
            for ms in _DELAYS_MS
        ]
        through = proxy.bootstrap_servers
        began = list(
            pool.map(lambda n: Producer(through, servers, n, random.Random(f"{seed} {n}")), names)
        )
        list(pool.map(lambda one: _write(one, late, runs), began))
        for fault in late:
            fault.wait(fault.happened, ended=True)
            fault.lift()
        list(pool.map(lambda one: one.finish(servers), began))
    tallies = [one.tally for one in began]
    return Tally(
        sum(one.transactions for one in tallies),
        sum(one.unknown for one in tallies),
        sum(fault.ended for fault in late),
        sum(one.records for one in tallies),
        [text for one in tallies for text in one.wrong],
    )


def _write(one: Producer, late: list[Fault], runs: int) -> None:
    said = time.monotonic()
    while sum(fault.happened for fault in late) < runs:
        one.write()
        if time.monotonic() - said > 30:
            said = time.monotonic()
            print(f"{sum(fault.happened for fault in late)} late ends", flush=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.late_ends", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000, help="ends that come late, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--producers", type=int, default=8, help="at once")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # a line for each transaction that is given up
    with KafkaBroker() as broker:
        tally = run(broker.bootstrap_servers, options.runs, options.seed, options.producers)
    for text in tally.wrong:
        print(text)
    print(
        f"seed {options.seed}: {tally.late} of {tally.transactions} ends were late, "
        f"{tally.unknown} transactions given up, {tally.records} records: "
        f"{'wrong' if tally.wrong else 'none lost, torn or doubled'}"
    )
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
