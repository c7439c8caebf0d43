"""Whole groups of plain consumers around the fake coordinator.

Readers are as small as can be: they look into their inbox now and then, read what they were given,
and commit and give up what was taken away. What they read is watched all the time.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from streamlet.coordinator.events import (
    Assigned,
    CommitDone,
    CommitOutcome,
    CommitWanted,
    Failed,
    JoinSoon,
    LeaveWanted,
    Lost,
    ProgressMade,
    Rejoin,
    UnblockJoin,
)
from streamlet.partitions.protocol import PartitionsProtocol
from streamlet.partitions.wire import V0_EAGER, V1_COOPERATIVE, decode_assignment
from streamlet.types import TopicPartition

ENDS = (CommitOutcome.ACCEPTED, CommitOutcome.LOST)


class Reader:
    """Reads partitions by the assignments its machine delivers, at a pace of its own."""

    def __init__(self, crowd, name, version, poll_ms=20, **settings):
        self.crowd = crowd
        self.name = name
        self.version = version
        self.poll_ms = poll_ms
        self.reading: set[TopicPartition] = set()
        self.inbox: list = []
        self.stops = Counter()
        self.giving_up: tuple[set[TopicPartition], int | None] | None = None
        self.protocol = PartitionsProtocol(
            ["t"],
            version,
            partitions=lambda topics: {"t": crowd.partitions},
            rejoin=lambda reason: self.wish(Rejoin(reason)),
            overtaken=lambda reason: self.inbox.append("lost"),
        )
        self.seat = crowd.world.add(
            name,
            metadata=lambda need: self.protocol.subscribe(need, {})[0][1],
            assign=self.protocol.assign,
            announce_joins=version == V0_EAGER,
            **settings,
        )
        self.seat.works = False
        self.seat.listen = self.heard
        self.poll()

    def wish(self, event):
        self.crowd.world.later(lambda: self.crowd.world.tell(self.seat, event))

    def heard(self, command):
        """On the control thread."""
        match command:
            case Assigned(assignment=assignment):
                self.protocol.decode(assignment)
                self.inbox.append(self.protocol.received)
            case Lost():
                self.protocol.lost()
                self.inbox.append("lost")
            case JoinSoon(token=token):
                self.inbox.append(token)
            case CommitDone(outcome=outcome) if self.giving_up is not None:
                self.committed(outcome)
            case Failed(error):
                raise error

    def poll(self):
        """What the thread that reads does, again and again."""
        if self.seat.ended is not None or not self.seat.alive:
            return
        self.crowd.world.tell(self.seat, ProgressMade())
        if "lost" in self.inbox:
            del self.inbox[: len(self.inbox) - self.inbox[::-1].index("lost")]
            self.stop(set(self.reading))
            self.giving_up = None
        while self.inbox and self.giving_up is None:
            self.obey(self.inbox.pop(0))
        self.crowd.watch()
        self.crowd.world.later(self.poll, self.poll_ms)

    def obey(self, order):
        if isinstance(order, int):
            self.give_up(set(self.reading), order)
            return
        gone = self.reading - order.assigned
        self.stop(gone)
        self.reading |= order.assigned
        if gone or order.revoked:
            self.give_up(gone | order.revoked, None)

    def give_up(self, partitions, hold):
        self.stop(partitions)
        self.giving_up = (partitions, hold)
        self.commit()

    def commit(self):
        if self.giving_up is not None:
            partitions, hold = self.giving_up
            self.crowd.tokens += 1
            offsets = dict.fromkeys(sorted(partitions), (1, ""))
            self.wish(CommitWanted(self.crowd.tokens, offsets, hold))

    def committed(self, outcome):
        partitions, hold = self.giving_up
        if outcome not in ENDS and hold is None:
            self.crowd.world.later(self.commit, 20)
            return
        self.giving_up = None
        if hold is None:
            self.protocol.gave_up(partitions)
        else:
            self.protocol.surrender(self.protocol.received)
            self.wish(UnblockJoin(hold))

    def stop(self, partitions):
        for partition in partitions & self.reading:
            self.reading.discard(partition)
            self.stops[partition] += 1

    def leave(self):
        self.stop(set(self.reading))
        self.crowd.world.tell(self.seat, LeaveWanted("enough"))


class Crowd:
    """A group of readers, and what must hold of them at every moment."""

    def __init__(self, world, partitions=12):
        self.world = world
        self.partitions = partitions
        self.readers: dict[str, Reader] = {}
        self.tokens = 0

    def hire(self, name, version=V1_COOPERATIVE, **settings):
        self.readers[name] = Reader(self, name, version, **settings)
        return self.readers[name]

    def bounce(self, name, version):
        """End a reader and start it again at another version."""
        self.readers[name].leave()
        self.world.run(500)
        del self.readers[name], self.world.seats[name]
        return self.hire(name, version)

    def active(self):
        return [
            r
            for r in self.readers.values()
            if r.seat.alive and r.seat.ended is None and r.name not in self.world.cut
        ]

    def all(self):
        return {TopicPartition("t", n) for n in range(self.partitions)}

    def watch(self):
        """No partition is read by two members whose commits the group would take."""
        view = self.world.coordinator.view("g")
        members = view.members if view else ()
        reads = Counter()
        for reader in self.active():
            if reader.seat.machine.view.member_id in members:
                reads.update(reader.reading)
        twice = [str(p) for p, count in reads.items() if count > 1]
        assert not twice, (twice, {r.name: sorted(r.reading) for r in self.active()})

    def settle(self, ms=20_000):
        """Time passes until every partition is read and nothing more happens."""
        self.world.run(ms)
        before = {r.name: r.seat.machine.view.generation for r in self.active()}
        self.world.run(3_000)
        assert before == {r.name: r.seat.machine.view.generation for r in self.active()}, "unrest"
        assert self.world.settled()
        reads = Counter(p for r in self.active() for p in r.reading)
        assert reads == dict.fromkeys(self.all(), 1)
        assert all(r.reading == r.protocol.claims for r in self.active())

    def loads(self):
        return [len(r.reading) for r in self.active()]

    @property
    def rounds(self):
        return self.world.coordinator.rounds


@pytest.fixture
def crowd(world):
    return Crowd(world)


VERSIONS = [V0_EAGER, V1_COOPERATIVE]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("members", [1, 2, 7])
def test_members_started_at_once_share_the_partitions(crowd, members, version):
    for n in range(members):
        crowd.hire(f"m{n}", version)
    crowd.settle(5_000)
    assert max(crowd.loads()) - min(crowd.loads()) <= 1


def test_cooperative_a_newcomer_takes_its_share_and_the_rest_is_read_without_a_break(crowd):
    """Two rebalances: one takes away, the next gives."""
    old = [crowd.hire("a"), crowd.hire("b")]
    crowd.settle(5_000)
    rounds, stops = len(crowd.rounds), sum(sum(r.stops.values()) for r in old)
    new = crowd.hire("c")
    crowd.settle(5_000)
    assert len(new.reading) == 4
    assert sum(sum(r.stops.values()) for r in old) - stops == 4
    assert len(crowd.rounds) - rounds <= 3


def test_eager_everybody_stops_everything_in_each_rebalance(crowd):
    old = [crowd.hire("a", V0_EAGER), crowd.hire("b", V0_EAGER)]
    crowd.settle(5_000)
    before = sum(sum(r.stops.values()) for r in old)
    crowd.hire("c", V0_EAGER)
    crowd.settle(5_000)
    assert sum(sum(r.stops.values()) for r in old) - before == 12


def test_cooperative_what_a_member_that_leaves_had_is_read_on_after_one_rebalance(crowd):
    crowd.hire("a"), crowd.hire("b"), crowd.hire("c")
    crowd.settle(5_000)
    rounds = len(crowd.rounds)
    crowd.readers["b"].leave()
    crowd.settle(2_000)
    assert len(crowd.rounds) - rounds == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_that_crashes_is_replaced_after_its_session(crowd, version):
    for name in "abc":
        crowd.hire(name, version)
    crowd.settle(5_000)
    crowd.world.crash("b")
    crowd.settle(15_000)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_slow_reader_holds_up_nothing_but_what_it_has(crowd, version):
    """It looks into its inbox every three seconds: rebalances pile up in it."""
    crowd.hire("slow", version, poll_ms=3_000)
    crowd.hire("a", version)
    crowd.settle(20_000)
    for name in "bc":
        crowd.hire(name, version)
        crowd.world.run(400)
    crowd.readers["a"].leave()
    crowd.settle(40_000)


def test_two_bounces_take_a_group_from_eager_to_cooperative_with_everything_read_at_the_end(crowd):
    """001 part I: the second bounce, one member at a time, without losing a partition for good."""
    for name in "abc":
        crowd.hire(name, V0_EAGER)
    crowd.settle(5_000)
    for name in "abc":  # the first bounce: another program, the same version
        crowd.bounce(name, V0_EAGER)
        crowd.settle(5_000)
    for n, name in enumerate("abc"):
        crowd.bounce(name, V1_COOPERATIVE)
        crowd.settle(5_000)  # everything is read although members of both versions are there
        mixed = n < 2
        assert all(bool(r.reading) == r.version for r in crowd.active() if mixed and n == 0)
    assert crowd.loads() == [4, 4, 4]
    assert all(decode_assignment(a).version == 1 for a in crowd.rounds[-1].assignments.values())


def test_a_v0_newcomer_to_an_upgraded_group_gets_nothing_and_disturbs_nobody(crowd):
    """It counts as an incompatible rebalance at every member; nothing is taken from anybody."""
    old = [crowd.hire("a"), crowd.hire("b")]
    crowd.settle(5_000)
    before = [(set(r.reading), sum(r.stops.values())) for r in old]
    late = crowd.hire("old", V0_EAGER)
    crowd.settle(5_000)
    assert [(set(r.reading), sum(r.stops.values())) for r in old] == before
    assert not late.reading
    assert all(r.protocol.incompatible_rebalances == 1 for r in crowd.active())


def test_members_that_leave_while_versions_are_mixed_lose_nothing(crowd):
    """The departed V1 member's partitions go to V1 members, while the V0 member is still there."""
    for name in "abc":
        crowd.hire(name)
    crowd.hire("old", V0_EAGER)
    crowd.settle(5_000)
    crowd.readers["b"].leave()
    crowd.settle(5_000)
    assert sorted(crowd.loads()) == [0, 6, 6]
    crowd.readers["a"].leave()
    crowd.settle(5_000)
    crowd.readers["c"].leave()
    crowd.settle(5_000)  # only V0 is left, and reads everything
    assert crowd.loads() == [12]


def test_new_partitions_are_given_out_when_the_leader_asks_for_a_rebalance(crowd):
    crowd.hire("a"), crowd.hire("b")
    crowd.settle(5_000)
    crowd.partitions = 15
    crowd.readers["a"].wish(Rejoin("t has 15 partitions"))
    crowd.settle(5_000)


def test_a_static_member_that_restarts_upgraded_becomes_cooperative(crowd):
    """The coordinator answers it from memory, so it has to speak up itself."""
    crowd.hire("a"), crowd.hire("s", V0_EAGER, instance_id="s")
    crowd.settle(5_000)
    crowd.world.crash("s")
    crowd.world.run(1_000)
    del crowd.readers["s"], crowd.world.seats["s"]
    crowd.hire("s", V1_COOPERATIVE, instance_id="s", first_nonce=1_000)
    crowd.settle(5_000)
    assert crowd.loads() == [6, 6]


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 16))]
)
def test_whatever_happens_to_a_group_nothing_is_read_twice_or_never_again(crowd, seed):
    """Both versions, joins, leaves, crashes, cut connections, failovers, slow readers."""
    chance = random.Random(seed)
    versions = [V1_COOPERATIVE] if seed % 4 == 0 else VERSIONS
    for n in range(chance.randint(1, 4)):
        crowd.hire(f"m{n}", chance.choice(versions))
    for n in range(10, 22):
        crowd.world.run(chance.choice([5, 50, 400, 3_000]))
        happens = chance.choice(["hire", "hire", "leave", "crash", "cut", "heal", "restart"])
        names = [r.name for r in crowd.active()]
        if happens == "hire":
            poll_ms = chance.choice([5, 20, 700])
            crowd.hire(f"m{n}", chance.choice(versions), poll_ms=poll_ms)
        elif happens == "heal":
            crowd.world.cut.clear()
        elif happens == "restart":
            crowd.world.restart()
        elif len(names) > 1:
            name = chance.choice(names)
            if happens == "cut":
                crowd.world.cut.add(name)
            elif happens == "crash":
                crowd.world.crash(name)
            else:
                crowd.readers[name].leave()
    crowd.world.cut.clear()
    crowd.settle(90_000)
