"""An application's own assignor decides in a live group, and cannot leave it without a plan."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from examples.assignors.canary import canary
from streamlet.admin.snapshot import read
from streamlet.app import App
from streamlet.assignor.values import GroupState, MemberPlan, Plan
from streamlet.coordinator.transport import Transport
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from tests.integration.chaos.support import SELDOM_S, wait_for

pytestmark = pytest.mark.integration

PARTITIONS = 8


class Halting:
    """Canaries get a quarter; the first plan for two members would break the group."""

    def __init__(self) -> None:
        self._canary = canary(0.25)
        self.broke = False

    def __call__(self, group: GroupState) -> Plan:
        if len(group.members) < 2 or self.broke:
            return self._canary(group)
        self.broke = True
        everything = MemberPlan(active=frozenset(info.task for info in group.tasks))
        return Plan({member.member_id: everything for member in group.members})


def shares(transport: Transport, group: str) -> Counter[str]:
    """How many tasks each instance runs; none while the group rebalances."""
    live = read(transport.describe_group(group, 60_000).result(300))
    told = [(member.reported.name, member.assigned) for member in live.members]
    loads = {name: len(order.active) + len(order.pending) for name, order in told}
    return Counter(loads) if live.stable else Counter()


def await_shares(transport: Transport, group: str, wanted: Counter[str]) -> None:
    """Wait until instances run so many tasks each."""
    wait_for(
        lambda: shares(transport, group) == wanted,
        lambda: f"{wanted}: {shares(transport, group)}",
        pause_s=SELDOM_S,
    )


def test_a_canary_gets_its_share_and_a_plan_that_breaks_a_rule_is_not_used(
    bootstrap_servers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = uuid4().hex[:8]
    inputs, outputs = f"orders-{mark}", f"spent-{mark}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(inputs, PARTITIONS, 1), NewTopic(outputs, PARTITIONS, 1)])
    admin.close()
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(PARTITIONS):
        producer.produce(inputs, b"1", b"someone", partition=number)
    assert producer.flush(300) == 0
    own = Halting()

    def app(release: str) -> App:
        made = App(
            f"canary-{mark}",
            bootstrap_servers=bootstrap_servers,
            assignor=own,
            config={
                "state.dir": str(tmp_path / release),
                "instance.tags": {"release": release},
                "commit.interval.ms": 200,
            },
        )
        counts = made.stream(inputs, key=str, value=str).group_by_key().count(store="counts")
        counts.to_stream().to(outputs)
        return made

    transport = Transport(bootstrap_servers, {}, client_id="test")
    apps, threads = [app("stable"), app("canary")], []
    try:
        for one, name in zip(apps, ("old", "new"), strict=True):
            threads.append(threading.Thread(target=one.run, kwargs={"name": name}))
            threads[-1].start()
            wanted = Counter(old=PARTITIONS) if name == "old" else Counter(old=6, new=2)
            await_shares(transport, f"canary-{mark}", wanted)
    finally:
        for one, thread in zip(apps, threads, strict=False):
            one.close()
            thread.join(300)
        transport.close()

    assert own.broke
    assert "the application's assignor has no plan for generation" in caplog.text
    assert "U1: 0_0 is given out more than once (and 7 more)" in caplog.text
