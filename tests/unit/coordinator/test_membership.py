"""How a member joins, stays, rejoins and leaves, told one situation at a time."""

from __future__ import annotations

import pytest

from streamlet.coordinator.events import (
    Abandon,
    Answered,
    Assigned,
    AssignmentsReady,
    AssignorFailed,
    Connection,
    CoordinatorFound,
    Failed,
    FindCoordinator,
    LeaveWanted,
    Left,
    Lost,
    MetadataReady,
    ProgressMade,
    Rejoin,
    Send,
    StartMembership,
    Tick,
)
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.membership import IllegalEventError, Membership, MembershipState
from streamlet.coordinator.messages import (
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    LeaveGroupAnswer,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.coordinator.states import MOVES, IllegalMoveError
from streamlet.errors import FatalGroupError
from streamlet.rebalance.values import JoinedMember, NeedMetadata, RunAssignor


def joined(member_id="a", generation=1, **fields):
    answer = {"protocol_type": "stream", "protocol_name": "p", "leader": "boss", **fields}
    return JoinGroupAnswer(0, generation, member_id=member_id, **answer)


def kinds(commands):
    return [type(command) for command in commands]


# -- joining -----------------------------------------------------------------------------------


def test_a_new_member_looks_the_coordinator_up_and_describes_itself_only_then(by_hand):
    """What a member says must be as fresh as possible when JoinGroup leaves."""
    member = by_hand()
    assert kinds(member.tell(StartMembership())) == [FindCoordinator]
    (need,) = member.tell(CoordinatorFound("one"))
    assert need == NeedMetadata(1, "", -1, 0, 0, "joining")
    (send,) = member.describe(b"me")
    assert send.connection is Connection.JOIN
    assert send.request == JoinGroup(
        "g", "", None, "stream", (("p", b"me"),), 10_000, 60_000, "joining"
    )
    assert send.timeout_ms > 60_000, "a parked JoinGroup must outlive the rebalance timeout"


def test_a_new_member_comes_back_with_the_id_it_is_given(by_hand):
    """Brokers since 2.2 hand out the member id first, so that lost answers leave no ghosts."""
    member = by_hand()
    member.start()
    member.describe(b"me")
    (again,) = member.answer(JoinGroupAnswer(79, member_id="a-1"))
    assert isinstance(again.request, JoinGroup)
    assert again.request.member_id == "a-1"
    assert again.request.protocols == (("p", b"me"),)


@pytest.mark.parametrize("given", ["", "other"])
def test_being_asked_for_an_id_again_is_not_answered_at_once(by_hand, given):
    """A broker that keeps asking must not be answered in a tight loop."""
    member = by_hand()
    member.start()
    member.describe()
    if given:
        member.answer(JoinGroupAnswer(79, member_id="a-1"))
    assert not member.answer(JoinGroupAnswer(79, member_id=given))
    assert member.machine.view.state is MembershipState.PREPARING


def test_a_follower_syncs_and_takes_its_assignment(by_hand):
    member = by_hand()
    member.start()
    member.describe()
    (sync,) = member.answer(joined("a", 7))
    assert sync.request == SyncGroup("g", 7, "a", None, "stream", "p")
    assert sync.connection is Connection.JOIN
    (deliver,) = member.answer(SyncGroupAnswer(0, b"tasks"))
    assert deliver == Assigned(7, "a", b"tasks", leader=False, restarted=False)
    assert member.machine.view.state is MembershipState.STABLE
    assert (member.machine.view.member_id, member.machine.view.generation) == ("a", 7)
    assert repr(member.machine) == "<stable a gen 7, found>"


def test_the_leader_plans_before_it_syncs(by_hand):
    """The coordinator makes the first member leader and gives it everybody's description."""
    member = by_hand()
    member.start()
    member.describe()
    everybody = (JoinedMember("a", None, b"me"), JoinedMember("b", None, b"you"))
    (run,) = member.answer(joined("a", 7, leader="a", members=everybody))
    assert run == RunAssignor(7, everybody, 0, "a")
    (sync,) = member.tell(AssignmentsReady(7, {"b": b"2", "a": b"1"}))
    assert sync.request.assignments == (("a", b"1"), ("b", b"2"))
    (deliver,) = member.answer(SyncGroupAnswer(0, b"1"))
    assert deliver.leader


def test_a_leader_that_has_no_plan_backs_off_and_joins_again(by_hand):
    """The topics cannot be looked up just now; the others wait in SyncGroup meanwhile."""
    member = by_hand()
    member.start()
    member.describe()
    member.answer(joined("a", 7, leader="a"))
    assert not member.tell(AssignorFailed(6, "late")), "of an older generation"
    assert not member.tell(AssignorFailed(7, "topics unknown"))
    assert member.machine.view.state is MembershipState.PREPARING
    assert member.machine.view.last_problem == "assignor: topics unknown"
    assert NeedMetadata in kinds(member.advance(100))


def test_a_plan_that_comes_too_late_is_not_sent(by_hand):
    """The assignor took so long that the group went on without its leader."""
    member = by_hand()
    member.start()
    member.describe()
    member.answer(joined("a", 7, leader="a"))
    member.beat(25)
    assert member.machine.view.state is MembershipState.DESCRIBING
    assert not member.tell(AssignmentsReady(7, {"a": b"1"}))


def test_a_description_that_was_overtaken_is_not_sent(by_hand):
    """While the worker described itself the member id was lost; the claims in it are void."""
    member = by_hand().join()
    member.tell(Rejoin("ready"))
    (old,) = member.commands
    member.beat(25)
    (new,) = [c for c in member.commands if isinstance(c, NeedMetadata)]
    assert not member.tell(MetadataReady(old.request, "stream", (("p", b"old claims"),)))
    (send,) = member.tell(MetadataReady(new.request, "stream", (("p", b"no claims"),)))
    assert send.request.protocols == (("p", b"no claims"),)


def test_a_wish_to_rejoin_during_a_join_is_carried_out_after_it(by_hand):
    """A learner became ready while the JoinGroup that did not say so was parked."""
    member = by_hand()
    member.start()
    member.describe()
    assert not member.tell(Rejoin("learner ready"))
    member.answer(joined())
    deliver, need = member.answer(SyncGroupAnswer(0, b"x"))
    assert isinstance(deliver, Assigned)
    assert (need.nonce, need.reason) == (1, "learner ready")


def test_a_wish_to_rejoin_changes_the_description_and_a_rebalance_alone_does_not(by_hand):
    """A follower that rejoins with the same bytes gets its old assignment back, at once."""
    member = by_hand(first_nonce=100).join()
    member.beat(27)
    (need,) = [c for c in member.commands if isinstance(c, NeedMetadata)]
    assert (need.nonce, need.reason) == (100, "rebalance in progress")
    member.rejoin(generation=2)
    (need,) = member.tell(Rejoin("ready"))
    assert (need.nonce, need.reason) == (101, "ready")


def test_a_forced_join_that_failed_is_forced_again(by_hand):
    """The first may have arrived: bytes equal to it would not cause a rebalance."""
    member = by_hand().join()
    (need,) = member.tell(Rejoin("ready"))
    member.describe()
    member.answer(JoinGroupAnswer(14))
    (again,) = [c for c in member.advance(100) if isinstance(c, NeedMetadata)]
    assert again.nonce == need.nonce + 1


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (14, MembershipState.PREPARING),
        (15, MembershipState.PREPARING),
        (16, MembershipState.PREPARING),
        (27, MembershipState.PREPARING),
        (-1, MembershipState.PREPARING),
        (999, MembershipState.PREPARING),
        (23, MembershipState.FAILED),
        (24, MembershipState.FAILED),
        (26, MembershipState.FAILED),
        (30, MembershipState.FAILED),
        (35, MembershipState.FAILED),
        (81, MembershipState.FAILED),
        (82, MembershipState.FAILED),
    ],
)
def test_join_answers_with_an_error_are_tried_again_or_final(by_hand, code, state):
    member = by_hand()
    member.start()
    member.describe()
    commands = member.answer(JoinGroupAnswer(code))
    assert member.machine.view.state is state
    if state is MembershipState.PREPARING:
        commands += member.advance(200)
        assert any(isinstance(c, NeedMetadata | FindCoordinator) for c in commands)


def test_a_refusal_names_the_request_the_group_the_code_and_what_to_do(by_hand):
    """Another program uses the group's name, or an older version of this one."""
    member = by_hand()
    member.start()
    member.describe()
    (fail,) = member.answer(JoinGroupAnswer(23))
    assert isinstance(fail, Failed)
    assert isinstance(fail.error, FatalGroupError)
    assert "JoinGroup of group g was refused: INCONSISTENT_GROUP_PROTOCOL" in str(fail.error)
    assert "give the application another id" in str(fail.error)
    assert "another protocol type" in str(fail.error)


@pytest.mark.parametrize("code", [22, 27])
def test_a_sync_overtaken_by_the_next_rebalance_joins_again_at_once(by_hand, code):
    """Somebody else joined between our JoinGroup and our SyncGroup."""
    member = by_hand()
    member.start()
    member.describe()
    member.answer(joined())
    (need,) = member.answer(SyncGroupAnswer(code))
    assert (need.member_id, need.generation) == ("a", -1)


def test_a_sync_that_is_overtaken_again_and_again_backs_off(by_hand):
    member = by_hand()
    member.start()
    for _ in range(2):
        member.describe()
        member.answer(joined())
        commands = member.answer(SyncGroupAnswer(27))
    assert not commands
    assert member.machine.view.state is MembershipState.PREPARING


def test_the_next_generation_is_joined_under_the_same_id(by_hand):
    member = by_hand().join("a", 1)
    member.beat(27)
    (send,) = member.describe()
    assert send.request.member_id == "a"
    member.answer(joined("a", 2))
    (deliver,) = member.answer(SyncGroupAnswer(0, b"y"))
    assert deliver.generation == member.machine.view.generation == 2


# -- heartbeats --------------------------------------------------------------------------------


def test_heartbeats_go_on_while_a_join_is_parked(by_hand):
    """A join may wait for a dead member's session; ours must not run out meanwhile."""
    member = by_hand().join()
    member.beat(27)
    member.describe()
    for _ in range(3):
        member.beat(27)
    assert member.machine.view.state is MembershipState.JOINING
    assert member.now_ms - member.machine.view.last_heartbeat_ms < 500


def test_heartbeats_bear_the_newest_generation_even_if_its_sync_failed(by_hand):
    """The group is there already; one of the old generation would not keep the session alive."""
    member = by_hand().join("a", 1)
    member.beat(27)
    member.describe()
    member.answer(joined("a", 2))
    member.answer(SyncGroupAnswer(-1))
    member.advance(250)
    beats = [r for r in member.requests() if isinstance(r, Heartbeat)]
    assert [beat.generation for beat in beats] == [2]
    assert member.machine.view.generation == 1


def test_one_heartbeat_is_in_flight_at_most(by_hand):
    member = by_hand().join()
    member.advance(4_000)
    assert [type(r) for r in member.requests()] == [Heartbeat]


def test_a_heartbeat_that_counts_is_dated_by_when_it_was_sent(by_hand):
    """The coordinator got it no earlier than that; a slow answer must not make us feel younger."""
    member = by_hand().join()
    member.advance(250)
    sent_ms = member.now_ms
    member.advance(2_000)
    member.answer(HeartbeatAnswer(0), Heartbeat)
    assert member.machine.view.last_heartbeat_ms == sent_ms


def test_a_session_begins_with_the_first_join_answer(by_hand):
    """The first JoinGroup may be parked longer than a session: that does not age the member."""
    member = by_hand()
    member.start()
    member.describe()
    member.advance(30_000)
    member.answer(joined())
    assert member.machine.view.last_heartbeat_ms == 30_000


def test_a_member_that_slept_sends_a_heartbeat_first(by_hand):
    """SIGSTOP, a laptop's lid, a long garbage collection of the machine below us."""
    member = by_hand(max_poll_interval_ms=10**9).join()
    (send,) = member.wait(60_000)
    assert isinstance(send.request, Heartbeat)


@pytest.mark.parametrize("code", [25, 69])
def test_losing_the_member_id_loses_the_tasks_before_anything_else(by_hand, code):
    """Our session ran out: others may have our tasks since (M1)."""
    member = by_hand().join()
    commands = member.beat(code)
    assert isinstance(commands[0], Lost)
    need = commands[-1]
    assert (need.member_id, need.generation) == ("", -1)
    (send,) = member.describe()
    assert send.request.member_id == ""


def test_the_id_lost_during_a_join_abandons_the_parked_request(by_hand):
    """The old id's JoinGroup will never be answered, and blocks its connection."""
    member = by_hand().join()
    member.beat(27)
    member.describe()
    number = member.sent[0].number
    commands = member.beat(25)
    assert Abandon(number, Connection.JOIN) in commands
    assert Lost in kinds(commands)


def test_a_group_that_went_on_without_us_has_given_our_tasks_away(by_hand):
    """A static member slept through a rebalance: it was kept, but with older claims."""
    member = by_hand(instance_id="i-0").join("a", 3)
    commands = member.beat(22)
    assert isinstance(commands[0], Lost)
    assert commands[-1].member_id == "a", "the id itself is still good"


def test_a_heartbeat_of_the_old_generation_is_refused_during_the_switch(by_hand):
    """Our own JoinGroup completed the generation; its answer is on its way."""
    member = by_hand().join()
    member.beat(27)
    member.describe()
    assert not member.beat(22)
    assert member.machine.view.state is MembershipState.JOINING


def test_a_late_answer_to_a_heartbeat_of_the_old_generation_changes_nothing(by_hand):
    member = by_hand().join("a", 1)
    member.advance(250)
    member.tell(Rejoin("ready"))
    member.describe()
    member.answer(joined("a", 2), JoinGroup)
    member.answer(SyncGroupAnswer(0, b"y"), SyncGroup)
    assert not member.answer(HeartbeatAnswer(27), Heartbeat)
    assert member.machine.view.state is MembershipState.STABLE


@pytest.mark.parametrize("code", [14, 7, 999])
def test_a_heartbeat_that_could_not_be_served_is_sent_again(by_hand, code):
    member = by_hand().join()
    assert not member.beat(code)
    assert not member.beat(0)


def test_a_fatal_heartbeat_ends_the_membership(by_hand):
    """Somebody took our right to use the group away."""
    member = by_hand().join()
    lose, fail = member.beat(30)
    assert isinstance(lose, Lost)
    assert "no right to READ on group" in str(fail.error)
    assert fail.error.final, "its worker is not started again"


# -- progress ----------------------------------------------------------------------------------


def test_a_worker_that_hangs_makes_its_member_leave_and_come_back(by_hand):
    """A user function blocks for ever: others must get its tasks, though heartbeats go on."""
    member = by_hand(max_poll_interval_ms=3_000).join()
    for _ in range(11):
        member.beat()
    assert member.machine.view.state is MembershipState.STABLE
    lose = next(c for c in member.advance(250) if isinstance(c, Lost))
    assert "no progress for 3000 ms (max.poll.interval.ms)" in lose.reason
    assert member.now_ms == 3_000
    (leave,) = member.requests()
    assert (leave.member_id, leave.reason) == ("a", lose.reason)
    member.advance(60_000)
    assert member.machine.view.state is MembershipState.STALLED
    member.tell(ProgressMade())
    assert member.machine.view.state is MembershipState.PREPARING
    assert NeedMetadata in kinds(member.tell(CoordinatorFound("one")))
    assert member.machine.view.member_id == ""


def test_a_late_goodbye_of_a_stalled_member_does_not_end_the_new_membership(by_hand):
    member = by_hand(max_poll_interval_ms=1_000).join()
    member.advance(1_000)
    assert member.machine.view.state is MembershipState.STALLED
    (need,) = [c for c in member.tell(ProgressMade()) if isinstance(c, NeedMetadata)]
    assert need.member_id == ""
    member.answer(LeaveGroupAnswer(0), LeaveGroup)
    assert member.machine.view.state is MembershipState.DESCRIBING


def test_a_worker_that_stalls_while_its_join_is_parked_takes_it_back(by_hand):
    member = by_hand(max_poll_interval_ms=1_000)
    member.start()
    member.describe()
    (join,) = member.sent
    assert Abandon(join.number, Connection.JOIN) in member.advance(1_000)
    assert member.machine.view.state is MembershipState.STALLED


def test_progress_keeps_a_member_in(by_hand):
    member = by_hand(max_poll_interval_ms=1_000).join()
    for _ in range(20):
        member.beat()
        member.tell(ProgressMade())
    assert member.machine.view.state is MembershipState.STABLE


# -- leaving -----------------------------------------------------------------------------------


def test_leaving_says_goodbye(by_hand):
    member = by_hand().join()
    (send,) = member.tell(LeaveWanted("drained"))
    assert send.request == LeaveGroup("g", "a", None, "drained")
    assert send.connection is Connection.MAIN
    commands = member.answer(LeaveGroupAnswer(0))
    assert commands == [Left()]
    assert member.machine.view.state is MembershipState.LEFT


def test_leaving_quietly_leaves_a_place_for_the_successor(by_hand):
    """A static member is restarted: its tasks wait for it for one session timeout."""
    member = by_hand(instance_id="i-0").join()
    assert member.tell(LeaveWanted("restart", quietly=True)) == [Left()]


def test_leaving_before_there_is_an_id_ends_at_once(by_hand):
    member = by_hand()
    member.start()
    member.describe()
    (join,) = member.sent
    assert member.tell(LeaveWanted("stop")) == [
        Abandon(join.number, Connection.JOIN),
        Left(),
    ]


def test_leaving_gives_up_when_nobody_answers(by_hand):
    """The broker is gone as well; the session will run out."""
    member = by_hand(leave_timeout_ms=3_000).join()
    member.tell(LeaveWanted("stop"))
    assert Left() in member.advance(3_000)
    late = by_hand().join()
    late.tell(LeaveWanted("stop"))
    assert Left() in late.fail("disconnected", LeaveGroup)


@pytest.mark.parametrize("code", [14, 16])
def test_leaving_is_tried_again_while_there_is_time(by_hand, code):
    """The coordinator moves while we leave."""
    member = by_hand().join()
    member.tell(LeaveWanted("stop"))
    member.answer(LeaveGroupAnswer(code), LeaveGroup)
    if code == 16:
        assert FindCoordinator in kinds(member.commands)
        member.tell(CoordinatorFound("two"))
    member.advance(200)
    assert member.answer(LeaveGroupAnswer(0), LeaveGroup)[-1] == Left()


@pytest.mark.parametrize("code", [25, 69, 82])
def test_leaving_a_group_that_knows_us_no_more_is_leaving(by_hand, code):
    member = by_hand().join()
    member.tell(LeaveWanted("stop"))
    assert member.answer(LeaveGroupAnswer(code), LeaveGroup) == [Left()]


def test_an_expired_session_found_out_while_leaving_does_not_bring_us_back(by_hand):
    member = by_hand().join()
    member.advance(250)
    member.tell(LeaveWanted("stop"))
    assert Left() in member.answer(HeartbeatAnswer(25), Heartbeat)


def test_nothing_happens_after_the_end(by_hand):
    member = by_hand().join()
    member.tell(LeaveWanted("stop"))
    member.answer(LeaveGroupAnswer(0))
    assert not member.tell(LeaveWanted("stop"))
    assert not member.tell(Rejoin("ready"))
    assert not member.tell(Answered(1, HeartbeatAnswer(25)))
    assert not member.wait(10**6)


# -- the machine itself ------------------------------------------------------------------------


def test_an_event_before_start_and_a_second_start_are_named_errors():
    machine = Membership(MembershipConfig("g"))
    with pytest.raises(IllegalEventError, match="Tick in state new"):
        machine.handle(Tick(), 0)
    assert machine.view.state is MembershipState.NEW
    machine.handle(StartMembership(), 0)
    with pytest.raises(IllegalEventError, match="StartMembership in state preparing"):
        machine.handle(StartMembership(), 0)
    assert machine.view.state is MembershipState.PREPARING


def test_an_answer_of_the_wrong_kind_is_a_named_error(by_hand):
    member = by_hand()
    member.start()
    (send,) = member.describe()
    with pytest.raises(IllegalEventError, match="HeartbeatAnswer for JoinGroup"):
        member.machine.handle(Answered(send.number, HeartbeatAnswer(0)), 0)


def test_a_move_that_is_not_in_the_table_is_a_named_error(by_hand):
    member = by_hand()
    with pytest.raises(IllegalMoveError, match="new -> stable in generation -1"):
        member.machine._member.move_to(MembershipState.STABLE)
    assert member.machine.view.state is MembershipState.NEW


def test_every_state_is_in_the_table_and_can_be_reached():
    assert MOVES.keys() == set(MembershipState)
    assert {state for targets in MOVES.values() for state in targets} == set(MembershipState) - {
        MembershipState.NEW
    }


def test_time_that_goes_back_does_no_harm(by_hand):
    """Events are stamped by two threads; the machine's time never goes back."""
    member = by_hand().join()
    member.now_ms = -50
    assert not member.tell(Tick())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rebalance_timeout_ms": 10_000}, "rebalance.timeout.ms 10000 is too short"),
        ({"session_timeout_ms": 400}, "heartbeat.interval.ms 250 must be at most half"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MembershipConfig("g", **settings)


def test_commands_to_send_name_their_requests_and_times(by_hand):
    member = by_hand(session_timeout_ms=6_000).join()
    member.advance(250)
    (send,) = member.sent
    assert isinstance(send, Send)
    assert send.timeout_ms <= 3_000, "a heartbeat without answer must be noticed within a session"
