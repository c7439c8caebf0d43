"""Plain consumers on a real broker: sharing, moving, losing, upgrading, and being looked at."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from examples.consumer_canary import canary
from examples.consumer_lag_based import broker_lags, lag_based
from streamlet.consumer import Consumer, ConsumerMember, ConsumerRecord, sticky
from streamlet.errors import MissingTopicError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.types import TopicPartition

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 300
COOPERATIVE = {"rebalance.protocol": "cooperative", "heartbeat.interval.ms": 100}
EAGER = {"rebalance.protocol": "eager", "heartbeat.interval.ms": 100}


class Scene:
    """A topic and a group of their own; consumers are polled in turn by one thread."""

    def __init__(self, servers: str, ends: ExitStack, partitions: int) -> None:
        mark = uuid4().hex[:8]
        self.servers, self.topic, self.group = servers, f"topic-{mark}", f"group-{mark}"
        self._ends = ends
        admin = KafkaAdmin(servers)
        admin.create_topics([NewTopic(self.topic, partitions, 1)])
        admin.close()
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        self.partitions = [TopicPartition(self.topic, n) for n in range(partitions)]
        self.read: dict[Consumer, list[ConsumerRecord]] = {}
        self.ended: list[ConsumerRecord] = []  # read by those that have ended
        self.revoked: dict[Consumer, list[TopicPartition]] = {}

    def consumer(self, config: Mapping[str, Any] = COOPERATIVE, **options: Any) -> Consumer:
        gone: list[TopicPartition] = []
        found = Consumer(
            self.topic,
            self.group,
            bootstrap_servers=self.servers,
            config=config,
            on_revoked=gone.extend,
            **options,
        )
        self._ends.callback(found.close)
        self.read[found], self.revoked[found] = [], gone
        return found

    def end(self, consumer: Consumer) -> None:
        consumer.close()
        self.ended += self.read.pop(consumer)

    def write(self, value: str, *only: TopicPartition) -> None:
        """A record to each partition."""
        for partition in only or self.partitions:
            self._producer.produce(self.topic, value.encode(), partition=partition.partition)
        assert self._producer.flush(300) == 0

    def poll_until(self, condition: Callable[[], bool], *which: Consumer) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, {c.member_id: c.assignment for c in self.read}
            for consumer in which or tuple(self.read):
                self.read[consumer] += consumer.poll(timeout=0.02)

    def settle(self, *loads: int) -> None:
        """Until all partitions are read, by loads like these."""
        self.poll_until(
            lambda: (
                sorted(len(c.assignment) for c in self.read) == sorted(loads)
                and sorted(p for c in self.read for p in c.assignment) == self.partitions
            )
        )

    def values(self) -> Counter[tuple[int, bytes | None]]:
        """How often each record was read."""
        reads = [self.ended, *self.read.values()]
        return Counter((r.partition, r.value) for read in reads for r in read)


@pytest.fixture
def scene(bootstrap_servers: str) -> Iterator[Callable[[int], Scene]]:
    with ExitStack() as ends:
        yield lambda partitions: Scene(bootstrap_servers, ends, partitions)


class Slow:
    """An assignor that can be held: the rebalance stays open, heartbeats of the leader too."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(
        self, members: Sequence[ConsumerMember], partitions: Sequence[TopicPartition]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        self.asked.set()
        assert self.go_on.wait(WAIT_S)
        return sticky(members, partitions)


def test_what_does_not_move_flows_while_members_come_and_go(
    scene: Callable[[int], Scene],
) -> None:
    """Records are read in the middle of a rebalance that is held open; nothing is read twice."""
    s = scene(4)
    slow = Slow()
    old = s.consumer(assignor=slow)
    s.settle(4)
    slow.asked.clear()
    slow.go_on.clear()
    new = s.consumer(assignor=slow)
    s.poll_until(slow.asked.is_set)
    s.write("during")
    s.poll_until(lambda: len(s.read[old]) == 4, old)
    slow.go_on.set()
    s.settle(2, 2)
    assert sorted(s.revoked[old]) == new.assignment
    s.write("after")
    s.poll_until(lambda: len(s.values()) == 8)
    assert set(s.values().values()) == {1}
    assert {r.partition for r in s.read[new]} == {p.partition for p in new.assignment}

    before = old.assignment
    s.end(new)
    s.settle(4)
    assert not set(s.revoked[old]) & set(before)
    s.write("alone")
    s.poll_until(lambda: len(s.values()) == 12)
    assert set(s.values().values()) == {1}


def test_a_custom_assignor_has_the_last_word(scene: Callable[[int], Scene]) -> None:
    """librdkafka refuses custom assignors. Of ten partitions a canary gets one."""
    s = scene(10)
    release = {**COOPERATIVE, "instance.tags": {"release": "canary"}}
    s.consumer(assignor=canary()), s.consumer(assignor=canary())
    s.settle(5, 5)
    bird = s.consumer(release, assignor=canary())
    s.poll_until(lambda: len(bird.assignment) == 1)
    s.settle(1, 4, 5)


def test_the_example_by_lag_asks_the_broker_while_it_leads(scene: Callable[[int], Scene]) -> None:
    """Of three partitions one has as much to do as the others; lags that are late are no harm."""
    s = scene(3)
    assign = lag_based(broker_lags(s.servers, s.group))
    first = s.consumer(assignor=assign, auto_commit=False)
    s.settle(3)
    s.write("x")
    for _ in range(20):
        s.write("y", s.partitions[2])
    s.consumer(assignor=assign, auto_commit=False)
    s.settle(1, 2)
    alone = next(c.assignment for c in s.read if len(c.assignment) == 1)
    assert alone == [s.partitions[2]]
    assert first.metrics()["num.rebalance"] >= 2


def test_two_bounces_take_three_consumers_from_eager_to_cooperative(
    scene: Callable[[int], Scene],
) -> None:
    """Each is restarted twice, one at a time; at the end all read, and nothing was left out."""
    s = scene(6)
    group = [s.consumer(EAGER) for _ in range(3)]
    s.settle(2, 2, 2)
    for number, config in enumerate([EAGER] * 3 + [COOPERATIVE] * 3):
        s.end(group.pop(0))
        new = s.consumer(config)
        group.append(new)
        s.poll_until(lambda c=new: c.metrics()["num.rebalance"] > 0)
        s.write(f"{number}")
        s.poll_until(lambda n=number: len(s.values()) == 6 * (n + 1))
    s.settle(2, 2, 2)
    assert [c.metrics()["num.incompatible.rebalance"] > 0 for c in group] == [True, True, False]
    late = s.consumer()
    s.settle(1, 1, 2, 2)
    assert sum(map(len, (s.revoked[c] for c in group))) >= len(late.assignment)


ZOMBIE = """
import sys
from streamlet.consumer import Consumer
say = lambda word: lambda found: print(word, *sorted(p for _, p in found), flush=True)
with Consumer(sys.argv[2], sys.argv[3], bootstrap_servers=sys.argv[1],
        config={"rebalance.protocol": "cooperative", "session.timeout.ms": 6000},
        on_assigned=say("assigned"), on_lost=say("lost"), on_revoked=say("revoked")) as consumer:
    for record in consumer:
        print("read", record.partition, record.value.decode(), flush=True)
"""


def test_a_process_that_was_paused_too_long_hears_that_it_lost_its_partitions(
    scene: Callable[[int], Scene],
) -> None:
    """And takes part again; meanwhile the other has read everything."""
    s = scene(2)
    arguments = [sys.executable, "-c", ZOMBIE, s.servers, s.topic, s.group]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT) as zombie:
        too_late = threading.Timer(WAIT_S, zombie.kill)  # then reading its output ends
        try:
            assert zombie.stdout is not None
            assert zombie.stdout.readline() == "assigned 0 1\n"
            zombie.send_signal(signal.SIGSTOP)
            other = s.consumer({**COOPERATIVE, "session.timeout.ms": 6_000})
            s.write("x")
            s.poll_until(lambda: len(other.assignment) == 2 and len(s.read[other]) == 2)
            zombie.send_signal(signal.SIGCONT)
            too_late.start()
            # What came before it hears may still be read: at least once, not exactly once.
            heard = next(line for line in zombie.stdout if not line.startswith("read"))
            assert heard == "lost 0 1\n"
            s.poll_until(lambda: len(other.assignment) == 1)
            assert zombie.stdout.readline().startswith("assigned ")
        finally:
            too_late.cancel()
            zombie.kill()


def test_kafkas_own_tools_read_the_group(scene: Callable[[int], Scene]) -> None:
    s = scene(4)
    first, second = s.consumer(), s.consumer(EAGER)
    s.poll_until(lambda: second.metrics()["num.rebalance"] > 0 and len(first.assignment) == 4)

    admin = AdminClient({"bootstrap.servers": s.servers})
    described = admin.describe_consumer_groups([s.group])[s.group].result(30)
    assert described.state.name == "STABLE"
    assigned = {
        member.member_id: sorted((p.topic, p.partition) for p in member.assignment.topic_partitions)
        for member in described.members
    }
    assert assigned == {first.member_id: s.partitions, second.member_id: []}

    theirs = KafkaAdminClient(bootstrap_servers=s.servers)
    try:
        found = theirs.describe_groups([s.group])
    finally:
        theirs.close()
    assert s.topic in str(found)
    assert "owned_partitions" in str(found)


def test_a_topic_that_does_not_exist_is_named(bootstrap_servers: str) -> None:
    name = f"none-{uuid4().hex[:8]}"
    with (
        Consumer(name, "g", bootstrap_servers=bootstrap_servers) as consumer,
        pytest.raises(MissingTopicError, match=f"no such topic: {name}"),
    ):
        consumer.poll()
