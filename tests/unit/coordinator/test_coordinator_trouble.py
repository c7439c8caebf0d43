"""Coordinators that move, restart, vanish or cannot store the group; static restarts."""

from __future__ import annotations

import pytest

from streamlet.coordinator.events import (
    Abandon,
    Assigned,
    AssignmentsReady,
    Connection,
    CoordinatorFound,
    CoordinatorNotFound,
    Failed,
    FailureKind,
    FindCoordinator,
    Lost,
    Rejoin,
    Send,
    StartMembership,
)
from streamlet.coordinator.membership import MembershipState
from streamlet.coordinator.messages import (
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.errors import FatalGroupError, FencedError
from streamlet.rebalance.values import JoinedMember, NeedMetadata, RunAssignor


def joined(member_id="a", generation=1, leader="boss", skip=False, members=()):
    return JoinGroupAnswer(0, generation, "stream", "p", leader, member_id, skip, members)


def kinds(commands):
    return [type(command) for command in commands]


# -- the way to the coordinator ----------------------------------------------------------------


def test_a_coordinator_that_restarts_finds_a_stable_member_where_it_was(by_hand):
    """Verified with kill -9: generation and member id are still good, a heartbeat is enough."""
    member = by_hand().join("a", 3)
    member.advance(250)
    (find,) = member.fail(FailureKind.DISCONNECTED, Heartbeat)
    assert isinstance(find, FindCoordinator)
    (send,) = member.tell(CoordinatorFound("one"))
    assert isinstance(send.request, Heartbeat)
    assert not member.answer(HeartbeatAnswer(0), Heartbeat)
    assert (member.machine.view.state, member.machine.view.generation) == (
        MembershipState.STABLE,
        3,
    )


def test_a_join_that_was_parked_at_a_coordinator_that_died_is_sent_again(by_hand):
    """The pending rebalance is lost with it; nobody will ever answer."""
    member = by_hand().join("a", 3)
    member.tell(Rejoin("ready"))
    member.describe()
    assert FindCoordinator in kinds(member.fail(FailureKind.DISCONNECTED, JoinGroup))
    commands = member.tell(CoordinatorFound("one"))
    need = next(c for c in commands if isinstance(c, NeedMetadata))
    assert (need.member_id, need.generation) == ("a", 3), "claims live as long as the member id"
    (send,) = member.describe()
    assert isinstance(send.request, JoinGroup)


def test_claims_survive_a_coordinator_that_is_gone_longer_than_the_session(by_hand):
    """It cannot expire us while it is down, and starts every session anew when it is back."""
    member = by_hand(session_timeout_ms=6_000).join("a", 3)
    member.beat(15)
    for _ in range(30):
        member.tell(CoordinatorNotFound())
        member.until(FindCoordinator)
    assert member.now_ms > 20_000
    assert (member.machine.view.generation, member.machine.view.member_id) == (3, "a")
    assert member.machine.view.last_problem == "FindCoordinator: no broker answers"
    member.tell(CoordinatorFound("one"))
    member.answer(HeartbeatAnswer(0), Heartbeat)
    assert member.machine.view.state is MembershipState.STABLE


def test_look_ups_back_off_until_something_is_answered(by_hand):
    """A broker that names a coordinator nobody can connect to must not be asked in a loop."""
    member = by_hand(backoff_ms=100, backoff_max_ms=1_000).join()
    asked = []
    for _ in range(8):
        member.tell(CoordinatorFound("one"))
        if not member.sent:
            member.advance(250)
        member.fail(FailureKind.DISCONNECTED, Heartbeat)
        before = member.now_ms
        member.until(FindCoordinator)
        asked.append(member.now_ms - before)
    assert asked[0] == 0
    assert asked[1:4] == sorted(asked[1:4])
    assert all(800 <= wait <= 1_205 for wait in asked[4:])


def test_a_look_up_that_hangs_is_begun_again(by_hand):
    member = by_hand(request_timeout_ms=5_000)
    member.tell(StartMembership())
    assert FindCoordinator in kinds(member.advance(5_100))
    assert not member.tell(CoordinatorNotFound()), "looked up again later"
    member.advance(1_500)
    assert NeedMetadata in kinds(member.tell(CoordinatorFound("one")))
    assert not member.tell(CoordinatorFound("two")), "the answer to the first look-up"
    assert not member.tell(CoordinatorNotFound(15)), "or its failure"


@pytest.mark.parametrize("error", [14, 15, 16, 72, None])
def test_a_coordinator_that_is_not_there_yet_is_looked_up_again(by_hand, error):
    """The first look-up on a fresh cluster creates the topic for positions, and fails."""
    member = by_hand()
    member.tell(StartMembership())
    commands = member.tell(CoordinatorNotFound(error))
    assert FindCoordinator in kinds(commands + member.advance(1_500))


@pytest.mark.parametrize("error", [24, 30, 35, 58])
def test_a_look_up_that_is_refused_is_final(by_hand, error):
    member = by_hand()
    member.tell(StartMembership())
    (fail,) = member.tell(CoordinatorNotFound(error))
    assert isinstance(fail.error, FatalGroupError)
    assert "FindCoordinator of group g was refused" in str(fail.error)


def test_a_coordinator_that_moved_does_not_answer_a_parked_join(by_hand):
    """The partition of __consumer_offsets has another leader; the old one may never say so."""
    member = by_hand().join()
    member.tell(Rejoin("ready"))
    member.describe()
    join = next(s for s in member.sent if isinstance(s.request, JoinGroup))
    member.beat(16)
    commands = member.tell(CoordinatorFound("two"))
    assert Abandon(join.number, Connection.JOIN) in commands
    assert NeedMetadata in kinds(commands)


def test_a_look_up_that_finds_the_same_coordinator_leaves_a_parked_join_alone(by_hand):
    """Only the other connection was cut."""
    member = by_hand().join()
    member.tell(Rejoin("ready"))
    member.describe()
    member.advance(250)
    member.fail(FailureKind.DISCONNECTED, Heartbeat)
    member.tell(CoordinatorFound("one"))
    assert member.machine.view.state is MembershipState.JOINING
    assert not [c for c in member.commands if isinstance(c, Abandon)]


def test_a_description_made_while_the_coordinator_was_lost_is_made_again(by_hand):
    member = by_hand().join()
    member.tell(Rejoin("ready"))
    member.advance(250)
    member.answer(HeartbeatAnswer(16), Heartbeat)
    member.describe()
    assert member.machine.view.state is MembershipState.PREPARING
    assert NeedMetadata in kinds(member.tell(CoordinatorFound("one")))


def test_a_plan_made_while_the_coordinator_was_lost_is_made_again(by_hand):
    member = by_hand()
    member.start()
    member.describe()
    member.answer(joined("a", 7, leader="a"))
    member.beat(16)
    assert not [c for c in member.tell(AssignmentsReady(7, {})) if isinstance(c, Send)]
    assert member.machine.view.state is MembershipState.PREPARING


@pytest.mark.parametrize("kind", [JoinGroup, SyncGroup])
def test_a_join_or_sync_that_is_never_answered_is_given_up(by_hand, kind):
    """The shell may have no timers: the machine keeps its own and ignores what comes later."""
    member = by_hand(max_poll_interval_ms=10**9)
    member.start()
    member.describe()
    if kind is SyncGroup:
        member.answer(joined())
    (late,) = [s for s in member.sent if isinstance(s.request, kind)]
    for _ in range(300):
        if Abandon(late.number, Connection.JOIN) in member.advance(250):
            break
        for send in [s for s in member.sent if isinstance(s.request, Heartbeat)]:
            member.answer(HeartbeatAnswer(27), type(send.request))
    else:
        pytest.fail("never given up")
    assert member.machine.view.state in (MembershipState.PREPARING, MembershipState.DESCRIBING)
    assert 65_000 <= member.now_ms <= 65_500


# -- more than a broker can store --------------------------------------------------------------


def test_a_group_too_large_to_store_never_sends_the_same_bytes_again(by_hand):
    """Otherwise every SyncGroup fails for ever: 225 of them in 15 s were seen."""
    member = by_hand(max_poll_interval_ms=10**9)
    member.start()
    seen, waits = [], []
    for generation in range(1, 7):
        need = member.need
        seen.append((need.reduced, need.nonce))
        member.describe()
        everybody = (JoinedMember("a", None, b""),)
        (run,) = [
            c
            for c in member.answer(joined("a", generation, "a", members=everybody), JoinGroup)
            if isinstance(c, RunAssignor)
        ]
        assert run.reduced == need.reduced
        member.tell(AssignmentsReady(generation, {"a": b"x"}))
        member.answer(SyncGroupAnswer(-1), SyncGroup)
        before = member.now_ms
        member.until(NeedMetadata)
        waits.append(member.now_ms - before)
    assert [reduced for reduced, _ in seen] == [0, 1, 2, 2, 2, 2]
    assert len({nonce for _, nonce in seen}) == 6
    assert waits == sorted(waits)
    assert waits[-1] > 2_000


def test_a_reduced_description_is_made_whole_again_after_a_while(by_hand):
    """Other members may have left; and the error has other causes, too."""
    member = by_hand(reduced_for_ms=60_000, max_poll_interval_ms=10**9)
    member.start()
    member.describe()
    member.answer(joined())
    member.answer(SyncGroupAnswer(-1))
    assert member.until(NeedMetadata).reduced == 1
    member.describe()
    member.answer(joined(generation=2), JoinGroup)
    member.answer(SyncGroupAnswer(0, b"x"), SyncGroup)
    (need,) = member.tell(Rejoin("ready"))
    assert need.reduced == 1
    member.rejoin(generation=3)
    for _ in range(260):
        member.beat()
    (need,) = member.tell(Rejoin("ready"))
    assert need.reduced == 0


# -- static members ----------------------------------------------------------------------------


def test_a_restarted_static_member_is_told_that_its_assignment_may_be_old(by_hand):
    """The coordinator gives the old bytes to the new process and asks nobody."""
    member = by_hand(instance_id="i-0", first_nonce=77)
    member.start()
    assert member.describe()[0].request.instance_id == "i-0"
    member.answer(joined("a", 5))
    (deliver,) = member.answer(SyncGroupAnswer(0, b"old"))
    assert deliver.restarted
    (need,) = member.tell(Rejoin("other topology"))
    assert need.nonce == 78, "the bytes must differ from the ones stored at the restart"
    member.describe()
    member.answer(joined("a", 6))
    (deliver,) = member.answer(SyncGroupAnswer(0, b"new"))
    assert not deliver.restarted


def test_a_restarted_member_whose_first_sync_failed_is_still_told(by_hand):
    member = by_hand(instance_id="i-0")
    member.start()
    member.describe()
    member.answer(joined("a", 5))
    member.answer(SyncGroupAnswer(27))
    member.describe()
    member.answer(joined("a", 5))
    (deliver,) = member.answer(SyncGroupAnswer(0, b"old"))
    assert deliver.restarted


def test_a_dynamic_member_never_gets_a_cached_assignment(by_hand):
    member = by_hand()
    member.start()
    member.describe()
    member.answer(joined())
    (deliver,) = member.answer(SyncGroupAnswer(0, b"x"))
    assert not deliver.restarted


def test_a_restarted_static_leader_does_not_plan(by_hand):
    """KIP-814: it leads, but its SyncGroup's assignments would be ignored."""
    member = by_hand(instance_id="i-0")
    member.start()
    member.describe()
    everybody = (JoinedMember("a", "i-0", b"m"),)
    (sync,) = member.answer(joined("a", 5, "a", skip=True, members=everybody))
    assert isinstance(sync.request, SyncGroup)
    assert sync.request.assignments == ()
    (deliver,) = member.answer(SyncGroupAnswer(0, b"old"))
    assert isinstance(deliver, Assigned)
    assert deliver.leader
    assert deliver.restarted


@pytest.mark.parametrize("request_kind", ["join", "sync", "heartbeat"])
def test_a_static_id_started_twice_stops_the_older_process(by_hand, request_kind):
    """Both would run the same tasks; the coordinator knows which is newer."""
    member = by_hand(instance_id="i-0").join()
    if request_kind == "heartbeat":
        commands = member.beat(82)
    else:
        member.tell(Rejoin("ready"))
        member.describe()
        if request_kind == "join":
            commands = member.answer(JoinGroupAnswer(82))
        else:
            member.answer(joined(generation=2))
            commands = member.answer(SyncGroupAnswer(82))
    assert kinds(commands) == [Lost, Failed]
    assert isinstance(commands[-1].error, FencedError)
    assert member.machine.view.state is MembershipState.FAILED


@pytest.mark.parametrize("answer", [JoinGroupAnswer(25), SyncGroupAnswer(25)])
def test_an_id_found_out_to_be_gone_by_a_join_or_sync_is_given_up(by_hand, answer):
    member = by_hand().join()
    member.tell(Rejoin("ready"))
    member.describe()
    if isinstance(answer, SyncGroupAnswer):
        member.answer(joined(generation=2))
    lose, need = member.answer(answer)
    assert isinstance(lose, Lost)
    assert (need.member_id, need.generation) == ("", -1)
