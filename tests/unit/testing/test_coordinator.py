"""What the fake coordinator offers beyond a broker's answers: held joins, rounds, seeds, timers."""

from __future__ import annotations

from streamlet.coordinator.messages import (
    Committed,
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.testing.coordinator import FakeCoordinator
from streamlet.testing.coordinator_desk import BrokerRules, GroupPhase
from streamlet.types import TopicPartition

T0 = TopicPartition("t", 0)


def join(member_id: str = "", metadata: bytes = b"m", instance_id: str | None = None) -> JoinGroup:
    return JoinGroup("g", member_id, instance_id, "stream", (("p", metadata),), 10_000, 60_000)


def sync(member_id: str, generation: int, *assignments: tuple[str, bytes]) -> SyncGroup:
    return SyncGroup("g", generation, member_id, None, "stream", "p", assignments)


def enter(coordinator: FakeCoordinator, name: str, now_ms: int = 0) -> str:
    """Send both joins of a new member; the answer to the second is the caller's to look for."""
    [(_, answer)] = coordinator.handle(f"{name}-first", join(), now_ms, name)
    assert isinstance(answer, JoinGroupAnswer)
    coordinator.handle(name, join(answer.member_id), now_ms, name)
    return answer.member_id


def test_a_held_join_phase_stays_open_until_it_is_released() -> None:
    """A simulation wants all members of a step in one rebalance, the first included."""
    holding = True
    coordinator = FakeCoordinator(hold=lambda group: holding)
    first, second = enter(coordinator, "a"), enter(coordinator, "b")
    assert coordinator.view("g") is not None
    assert coordinator.release("g", 0) == []

    holding = False
    answers = coordinator.release("g", 0)

    assert [request_id for request_id, _ in answers] == ["a", "b"]
    view = coordinator.view("g")
    assert view is not None
    assert (view.state, view.generation) == (GroupPhase.COMPLETING, 1)
    assert view.members == (first, second)


def test_a_held_rebalance_ends_at_the_rebalance_timeout_all_the_same() -> None:
    coordinator = FakeCoordinator(hold=lambda group: True)
    coordinator.seed([(join("a"), b""), (join("b"), b"")], generation=1, now_ms=0)
    coordinator.handle("rejoin", join("a"), 0)
    coordinator.handle("alive", Heartbeat("g", 1, "b", None), 0)

    answers = coordinator.tick(60_000)

    assert [request_id for request_id, _ in answers] == ["rejoin"]


def test_a_finished_rebalance_is_a_round_and_an_unfinished_one_is_not() -> None:
    coordinator = FakeCoordinator()
    a = enter(coordinator, "a")
    assert coordinator.rounds == []

    coordinator.handle("sync", sync(a, 1, (a, b"x")), 5)

    [finished] = coordinator.rounds
    assert (finished.group, finished.generation, finished.leader) == ("g", 1, a)
    assert finished.members == ((a, None, b"m"),)
    assert (finished.assignments, finished.now_ms) == ({a: b"x"}, 5)


def test_a_seeded_group_is_stable_and_led_by_its_first_member() -> None:
    coordinator = FakeCoordinator()

    coordinator.seed([(join("a"), b"x"), (join("b", instance_id="i"), b"y")], 1, now_ms=0)

    view = coordinator.view("g")
    assert view is not None
    assert (view.state, view.generation, view.leader) == (GroupPhase.STABLE, 1, "a")
    [(_, answer)] = coordinator.handle("s", sync("a", 1), 1)
    assert answer == SyncGroupAnswer(0, b"x")
    assert coordinator.handle("h", Heartbeat("g", 1, "b", "i"), 1) == [("h", HeartbeatAnswer(0))]


def test_members_that_come_during_the_initial_delay_prolong_it() -> None:
    coordinator = FakeCoordinator(BrokerRules(initial_rebalance_delay_ms=3_000))
    enter(coordinator, "a", 0)
    enter(coordinator, "b", 2_000)
    assert coordinator.tick(3_000) == []

    answers = coordinator.tick(6_000)

    assert [request_id for request_id, _ in answers] == ["a", "b"]


def test_the_next_deadline_is_that_of_the_next_timer_that_was_not_cancelled() -> None:
    coordinator = FakeCoordinator()
    assert coordinator.next_deadline() is None
    coordinator.seed([(join("a"), b"x")], 1, now_ms=0)
    assert coordinator.next_deadline() == 10_000

    coordinator.handle("h", Heartbeat("g", 1, "a", None), 4_000)

    assert coordinator.next_deadline() == 14_000


def test_a_timer_fires_at_its_own_time_however_late_the_tick() -> None:
    """A session timeout at 10 s begins a rebalance whose own timeout counts from then."""
    coordinator = FakeCoordinator()
    coordinator.seed([(join("a"), b""), (join("b"), b"")], 1, now_ms=0)
    coordinator.handle("rejoin", join("a", b"new"), 9_000)

    [(request_id, answer)] = coordinator.tick(100_000)  # b expired at 10 s

    assert request_id == "rejoin"
    assert isinstance(answer, JoinGroupAnswer)
    assert answer.generation == 2
    view = coordinator.view("g")
    assert view is not None
    assert (view.state, view.generation) == (GroupPhase.EMPTY, 3)  # a was silent after its answer


def test_a_member_can_be_expired_at_once() -> None:
    coordinator = FakeCoordinator()
    coordinator.seed([(join("a"), b""), (join("b"), b"")], 1, now_ms=0)

    coordinator.expire("g", "b", 1)

    assert coordinator.handle("h", Heartbeat("g", 1, "a", None), 1) == [("h", HeartbeatAnswer(27))]


def test_offsets_of_an_open_transaction_are_unstable_unless_one_does_not_ask() -> None:
    coordinator = FakeCoordinator()
    coordinator.offsets.mark_unstable("g", T0)

    [(_, stable)] = coordinator.handle("s", OffsetFetch("g", (T0,)), 0)
    [(_, loose)] = coordinator.handle("l", OffsetFetch("g", (T0,), require_stable=False), 0)
    coordinator.offsets.mark_unstable("g", T0, unstable=False)
    [(_, later)] = coordinator.handle("n", OffsetFetch("g", (T0,)), 0)

    assert stable == OffsetFetchAnswer(0, {T0: Committed(-1, "", 88)})
    assert loose == later == OffsetFetchAnswer(0, {T0: Committed(-1, "")})


def test_a_restart_names_the_requests_it_loses() -> None:
    coordinator = FakeCoordinator()
    coordinator.seed([(join("a"), b""), (join("b"), b"")], 1, now_ms=0)
    coordinator.handle("rejoin", join("a", b"new"), 0)

    assert coordinator.restart(1) == ["rejoin"]

    view = coordinator.view("g")
    assert view is not None
    assert (view.state, view.generation) == (GroupPhase.STABLE, 1)
