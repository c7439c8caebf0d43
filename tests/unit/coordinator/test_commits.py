"""The commit gate (M2), unknown outcomes (M6), lost tasks (M1), reads of positions."""

from __future__ import annotations

import pytest

from streamlet.coordinator.events import (
    Assigned,
    BlockJoin,
    CommitDone,
    CommitOutcome,
    CommitWanted,
    Connection,
    CoordinatorFound,
    Failed,
    FailureKind,
    FetchDone,
    FetchOutcome,
    FetchWanted,
    FindCoordinator,
    JoinBlocked,
    JoinSoon,
    LeaveWanted,
    Left,
    Lost,
    Rejoin,
    UnblockJoin,
)
from streamlet.coordinator.membership import MembershipState
from streamlet.coordinator.messages import (
    Committed,
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchAnswer,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.rebalance.values import NeedMetadata
from streamlet.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ACCEPTED, GATED, SWITCHED = CommitOutcome.ACCEPTED, CommitOutcome.GATED, CommitOutcome.SWITCHED
UNKNOWN, LOST, REFUSED = CommitOutcome.UNKNOWN, CommitOutcome.LOST, CommitOutcome.REFUSED


def outcomes(commands):
    return [c.outcome for c in commands if isinstance(c, CommitDone)]


def joined(member_id="a", generation=1, leader="boss"):
    return JoinGroupAnswer(0, generation, "stream", "p", leader, member_id)


def park(member):
    """Get a STABLE member's JoinGroup parked by a rebalance."""
    member.beat(27)
    member.describe()
    assert member.machine.view.state is MembershipState.JOINING
    return member


# -- the gate ----------------------------------------------------------------------------------


def test_a_commit_bears_generation_and_member_id(by_hand):
    """The coordinator fences by these two and by nothing else."""
    member = by_hand(instance_id="i-0").join("a", 3)
    (send,) = member.commit(token=7)
    assert send.request == OffsetCommit("g", 3, "a", "i-0", {T0: (5, "")})
    assert send.connection is Connection.MAIN
    assert member.commit_answer(0) == [CommitDone(7, ACCEPTED)]


def test_a_join_waits_for_the_commit_in_flight(by_hand):
    """V7: the generation changes with the last JoinGroup, and an older commit is refused."""
    member = by_hand().join()
    member.commit()
    assert not member.beat(27)
    assert outcomes(member.commit(token=2)) == [GATED], "no further one, or the join would starve"
    result, need = member.commit_answer(0)
    assert result == CommitDone(1, ACCEPTED)
    assert isinstance(need, NeedMetadata)


def test_no_commit_is_begun_from_joining_to_synced(by_hand):
    member = by_hand().join()
    member.beat(27)
    assert outcomes(member.commit()) == [GATED], "while we describe ourselves"
    member.describe()
    assert outcomes(member.commit()) == [GATED], "while the JoinGroup is out"
    member.answer(joined(generation=2))
    assert outcomes(member.commit()) == [GATED], "while the SyncGroup is out"
    member.answer(SyncGroupAnswer(0, b"x"))
    (send,) = member.commit()
    assert send.request.generation == 2


def test_the_leader_commits_nothing_while_it_plans(by_hand):
    member = park(by_hand().join())
    member.answer(joined(generation=2, leader="a"), JoinGroup)
    assert member.machine.view.state is MembershipState.ASSIGNING
    assert outcomes(member.commit()) == [GATED]


def test_commits_go_on_while_others_keep_our_join_waiting(by_hand):
    """A member died: the join stays parked for its whole session, and the broker takes commits."""
    member = park(by_hand(parked_commit_after_ms=1_000).join("a", 1))
    member.advance(900)
    assert outcomes(member.commit()) == [GATED]
    member.advance(100)
    (send,) = member.commit()
    assert send.request.generation == 1
    assert outcomes(member.commit_answer(0)) == [ACCEPTED]


def test_a_commit_refused_because_the_generation_switched_keeps_the_tasks(by_hand):
    """The last member joined while a commit of the old generation was on its way: expected."""
    member = park(by_hand(parked_commit_after_ms=1_000).join("a", 1))
    member.advance(1_000)
    member.commit()
    assert member.commit_answer(22) == [CommitDone(1, SWITCHED, 22)]
    assert member.machine.view.generation == 1


def test_the_switch_may_be_heard_of_after_the_new_assignment(by_hand):
    """Two connections: the SyncGroup's answer overtakes the commit's."""
    member = park(by_hand(parked_commit_after_ms=1_000).join("a", 1))
    member.advance(1_000)
    member.commit()
    member.answer(joined("a", 2), JoinGroup)
    member.answer(SyncGroupAnswer(0, b"x"), SyncGroup)
    assert member.commit_answer(22) == [CommitDone(1, SWITCHED, 22)]
    assert member.machine.view.state is MembershipState.STABLE


def test_under_exactly_once_the_gate_stays_shut(by_hand):
    member = park(by_hand(parked_commit_after_ms=None).join())
    member.advance(20_000)
    assert outcomes(member.commit()) == [GATED]


def test_without_a_coordinator_nothing_is_begun(by_hand):
    member = by_hand().join()
    assert member.machine.view.commits_from_ms == 0
    member.beat(16)
    assert member.machine.view.commits_from_ms is None
    assert outcomes(member.commit()) == [GATED]


def test_without_an_assignment_there_is_nothing_to_commit(by_hand):
    """The worker has not yet heard that its tasks are lost."""
    member = by_hand()
    member.start()
    assert outcomes(member.commit()) == [LOST]


# -- what became of it -------------------------------------------------------------------------


@pytest.mark.parametrize("code", [12, 28, 29, 17])
def test_what_the_broker_will_not_have_is_refused_with_its_code(by_hand, code):
    """Metadata too long: repeating cannot help, the worker must say so."""
    member = by_hand().join()
    member.commit()
    assert member.commit_answer(code) == [CommitDone(1, REFUSED, code)]
    assert member.machine.view.state is MembershipState.STABLE


@pytest.mark.parametrize("code", [14, 89])
def test_what_the_coordinator_did_not_look_at_is_asked_again_later(by_hand, code):
    member = by_hand().join()
    member.commit()
    assert member.commit_answer(code) == [CommitDone(1, GATED, code)]
    assert member.machine.view.state is MembershipState.STABLE


def test_a_commit_refused_by_a_rebalance_makes_us_join(by_hand):
    member = by_hand().join()
    member.commit()
    result, need = member.commit_answer(27)
    assert result == CommitDone(1, GATED, 27)
    assert isinstance(need, NeedMetadata)


@pytest.mark.parametrize("code", [25, 69, 110, 113])
def test_a_commit_of_an_unknown_member_loses_the_tasks_and_the_id(by_hand, code):
    member = by_hand().join()
    member.commit()
    lose, result, need = member.commit_answer(code)
    assert isinstance(lose, Lost)
    assert result == CommitDone(1, LOST, code)
    assert (need.member_id, need.generation) == ("", -1)


def test_a_commit_of_another_generation_without_a_join_loses_the_tasks(by_hand):
    """The group went on without us; what it knew of our claims was old (M1)."""
    member = by_hand().join("a", 1)
    member.commit()
    lose, result, need = member.commit_answer(22)
    assert isinstance(lose, Lost)
    assert result == CommitDone(1, LOST, 22)
    assert (need.member_id, need.generation) == ("a", -1)


def test_a_fenced_member_stops_for_good(by_hand):
    """The same static id was started twice; the older one gives way."""
    member = by_hand(instance_id="i-0").join()
    member.commit()
    lose, fail, result = member.commit_answer(82)
    assert isinstance(lose, Lost)
    assert isinstance(fail, Failed)
    assert "group.instance.id i-0" in str(fail.error)
    assert result.outcome is LOST
    assert fail.error.exit_code == 6


def test_all_commits_in_flight_are_lost_with_the_tasks(by_hand):
    """Each wish of the worker is answered, so that nothing waits for ever."""
    member = by_hand().join()
    member.commit(token=1)
    member.commit(token=2)
    commands = member.beat(25)
    assert [c.token for c in commands if isinstance(c, CommitDone)] == [1, 2]
    assert set(outcomes(commands)) == {LOST}


@pytest.mark.parametrize("codes", [(0, 14), (0, 27), (0, 7)])
def test_a_commit_accepted_for_some_partitions_only_is_unknown(by_hand, codes):
    """W1: all partitions of a task bear the same metadata, or we do not know where we are."""
    member = by_hand().join()
    member.tell(commit_of(T0, T1))
    assert outcomes(member.commit_answer(*codes)) == [UNKNOWN]


def test_a_partition_left_out_of_the_answer_is_unknown(by_hand):
    member = by_hand().join()
    member.tell(commit_of(T0, T1))
    assert outcomes(member.commit_answer(0)) == [UNKNOWN]


def commit_of(*partitions, token=1):
    return CommitWanted(token, {partition: (5, "") for partition in partitions})


# -- unknown outcomes --------------------------------------------------------------------------


@pytest.mark.parametrize("code", [-1, 7, 15, 16, 13, 999])
def test_an_unknown_outcome_ends_the_generation(by_hand, code):
    """M6: the commit may yet arrive, and any later one of this generation could be overwritten."""
    member = by_hand().join("a", 1)
    member.commit()
    commands = member.commit_answer(code)
    assert commands[0] == CommitDone(1, UNKNOWN, code)
    if FindCoordinator in [type(c) for c in commands]:
        member.tell(CoordinatorFound("one"))
    need = member.need
    assert need.nonce == 1, "changed metadata, else no new generation comes of it"
    assert need.generation == 1, "the tasks stay ours"
    assert "outcome of a commit is unknown" in need.reason
    member.rejoin(generation=2)
    (send,) = member.commit(token=2)
    assert send.request.generation == 2


@pytest.mark.parametrize("failure", [FailureKind.TIMEOUT, FailureKind.DISCONNECTED])
def test_a_commit_without_an_answer_is_unknown(by_hand, failure):
    member = by_hand().join()
    member.commit()
    commands = member.fail(failure, OffsetCommit)
    assert outcomes(commands) == [UNKNOWN]
    assert FindCoordinator in [type(c) for c in commands]


def test_a_commit_that_is_never_heard_of_again_holds_a_join_up_for_its_timeout_only(by_hand):
    """The wait must end well before the rebalance timeout, else we are thrown out."""
    member = by_hand(commit_timeout_ms=2_000).join()
    member.commit()
    member.beat(27)
    member.until(FindCoordinator)
    assert member.now_ms == 2_000
    member.tell(CoordinatorFound("one"))
    member.describe()
    assert member.machine.view.state is MembershipState.JOINING


def test_an_unknown_outcome_while_parked_needs_no_rebalance_of_its_own(by_hand):
    """The one under way already brings a new generation."""
    member = park(by_hand(parked_commit_after_ms=1_000).join("a", 1))
    member.advance(1_000)
    member.commit(token=1)
    assert outcomes(member.commit_answer(7)) == [UNKNOWN]
    assert outcomes(member.commit(token=2)) == [GATED]
    member.answer(joined("a", 2), JoinGroup)
    (deliver,) = member.answer(SyncGroupAnswer(0, b"x"), SyncGroup)
    assert isinstance(deliver, Assigned)
    assert member.machine.view.state is MembershipState.STABLE


def test_a_rejoin_that_brings_the_same_generation_does_not_end_an_unknown_outcome(by_hand):
    """The coordinator restarted and the pending rebalance is lost: join again, differently."""
    member = park(by_hand(parked_commit_after_ms=1_000).join("a", 1))
    member.advance(1_000)
    member.commit(token=1)
    member.commit_answer(7)
    member.answer(joined("a", 1), JoinGroup)
    deliver, need = member.answer(SyncGroupAnswer(0, b"x"), SyncGroup)
    assert isinstance(deliver, Assigned)
    assert need.nonce == 1
    assert outcomes(member.commit(token=2)) == [GATED]


def test_an_unknown_outcome_of_the_generation_before_gates_nothing(by_hand):
    """Its generation is over: it cannot arrive any more."""
    member = park(by_hand(parked_commit_after_ms=1_000, commit_timeout_ms=4_000).join("a", 1))
    member.advance(1_000)
    member.commit(token=1)
    member.answer(joined("a", 2), JoinGroup)
    member.answer(SyncGroupAnswer(0, b"x"), SyncGroup)
    assert outcomes(member.fail(FailureKind.TIMEOUT, OffsetCommit)) == [UNKNOWN]
    member.tell(CoordinatorFound("one"))
    assert member.machine.view.state is MembershipState.STABLE
    (send,) = [c for c in member.commit(token=2) if not isinstance(c, Heartbeat)]
    assert send.request.generation == 2


def test_leaving_waits_for_the_commit_in_flight(by_hand):
    """A drained member's last commit decides where its successor starts."""
    member = by_hand().join()
    member.commit()
    assert not member.tell(LeaveWanted("drained"))
    assert outcomes(member.commit(token=2)) == [LOST]
    result, send = member.commit_answer(0)
    assert result == CommitDone(1, ACCEPTED)
    assert isinstance(send.request, LeaveGroup)


def test_leaving_in_a_hurry_tells_the_worker_that_it_does_not_know(by_hand):
    member = by_hand(leave_timeout_ms=500).join()
    member.commit()
    assert not member.tell(LeaveWanted("stop"))
    (send,) = member.advance(250)
    assert isinstance(send.request, LeaveGroup), "or the others wait until our session is over"
    commands = member.advance(250)
    assert outcomes(commands) == [UNKNOWN]
    assert commands[-1] == Left()


def test_a_commit_after_the_end_is_lost(by_hand):
    member = by_hand().join()
    member.tell(LeaveWanted("stop", quietly=True))
    assert outcomes(member.commit()) == [LOST]


# -- holding the join back ---------------------------------------------------------------------


def test_a_join_waits_for_a_unit_of_stopping_and_committing(by_hand):
    """V8: between the stop of a task that moves and the answer to its commit no JoinGroup goes."""
    member = by_hand().join("a", 4)
    assert member.tell(BlockJoin(1, 4)) == [JoinBlocked(1, True)]
    assert not member.beat(27)
    assert outcomes(member.commit(token=2)) == [GATED], "not part of the unit"
    (send,) = member.commit(token=3, hold=1)
    assert send.request.generation == 4
    member.commit_answer(0)
    assert member.machine.view.state is MembershipState.PREPARING
    (need,) = member.tell(UnblockJoin(1))
    assert isinstance(need, NeedMetadata)


def test_a_unit_is_not_begun_once_a_join_is_due(by_hand):
    """M5: the task stays active and the leader orders again."""
    member = by_hand().join("a", 4)
    assert member.tell(BlockJoin(1, 3)) == [JoinBlocked(1, False)], "an order of another round"
    member.beat(27)
    assert member.tell(BlockJoin(2, 4)) == [JoinBlocked(2, False)]


def test_a_unit_is_not_begun_with_an_unknown_outcome_or_without_a_coordinator(by_hand):
    member = by_hand().join("a", 4)
    member.commit()
    member.fail(FailureKind.TIMEOUT, OffsetCommit)
    assert member.tell(BlockJoin(1, 4)) == [JoinBlocked(1, False)]
    other = by_hand().join("a", 4)
    other.beat(16)
    assert other.tell(BlockJoin(1, 4)) == [JoinBlocked(1, False)]


def test_a_unit_that_takes_too_long_holds_nothing_back_any_more(by_hand):
    """A flush that hangs must not make the whole group wait for the rebalance timeout."""
    member = by_hand(hold_timeout_ms=2_000).join("a", 4)
    member.tell(BlockJoin(1, 4))
    member.tell(Rejoin("ready"))
    assert NeedMetadata in [type(c) for c in member.advance(2_000)]
    assert outcomes(member.commit(token=2, hold=1)) == [GATED]


def test_a_join_is_announced_to_a_worker_that_gives_tasks_up_at_each_and_waits_for_it(by_hand):
    member = by_hand(announce_joins=True).join("a", 4)
    (due,) = member.beat(27)
    assert due == JoinSoon(-1, 4)
    (send,) = member.commit(token=3, hold=-1)
    assert send.request.generation == 4
    member.commit_answer(0)
    (need,) = member.tell(UnblockJoin(-1))
    assert isinstance(need, NeedMetadata)


def test_an_announced_join_does_not_wait_for_ever(by_hand):
    member = by_hand(announce_joins=True, hold_timeout_ms=2_000).join("a", 4)
    member.tell(Rejoin("ready"))
    assert NeedMetadata in [type(c) for c in member.advance(2_000)]


def test_a_unit_whose_time_is_over_commits_nothing_even_in_the_next_generation(by_hand):
    """Its mark answers an order of the old one; meanwhile the JoinGroup said the task goes on."""
    member = by_hand(hold_timeout_ms=2_000).join("a", 4)
    member.tell(BlockJoin(1, 4))
    member.tell(Rejoin("ready"))
    member.advance(2_000)
    member.rejoin("a", 5)
    assert outcomes(member.commit(token=2, hold=1)) == [GATED]
    assert outcomes(member.commit(token=3)) == []


# -- reading committed positions ---------------------------------------------------------------


def fetch(member, answer):
    member.tell(FetchWanted(9, (T0, T1)))
    return member.answer(answer, OffsetFetch)


def test_committed_positions_are_read_stable_and_without_membership(by_hand):
    member = by_hand()
    member.start()
    (send,) = member.tell(FetchWanted(9, (T0,)))
    assert send.request == OffsetFetch("g", (T0,), require_stable=True)
    found = {T0: Committed(5, "x")}
    assert member.answer(OffsetFetchAnswer(0, found), OffsetFetch) == [
        FetchDone(9, FetchOutcome.FETCHED, found)
    ]


@pytest.mark.parametrize(
    ("error", "parts", "outcome"),
    [
        (0, (0, 88), FetchOutcome.UNSTABLE),
        (0, (0,), FetchOutcome.RETRY),
        (14, (), FetchOutcome.RETRY),
        (999, (), FetchOutcome.RETRY),
        (0, (0, 29), FetchOutcome.REFUSED),
        (0, (0, 3), FetchOutcome.REFUSED),
    ],
)
def test_positions_that_could_not_all_be_read_are_not_handed_over(by_hand, error, parts, outcome):
    member = by_hand().join()
    partitions = zip((T0, T1), parts, strict=False)
    answer = OffsetFetchAnswer(error, {p: Committed(5, "", code) for p, code in partitions})
    (result,) = fetch(member, answer)
    assert (result.outcome, result.committed) == (outcome, {})


def test_a_read_sent_to_the_wrong_broker_has_the_coordinator_looked_up(by_hand):
    member = by_hand().join()
    result, find = fetch(member, OffsetFetchAnswer(16))
    assert result == FetchDone(9, FetchOutcome.RETRY, code=16)
    assert isinstance(find, FindCoordinator)
    assert member.tell(FetchWanted(10, (T0,))) == [FetchDone(10, FetchOutcome.RETRY)]


def test_a_read_we_may_not_make_ends_the_membership(by_hand):
    member = by_hand().join()
    commands = fetch(member, OffsetFetchAnswer(30))
    assert Failed in [type(c) for c in commands]
    assert [c.outcome for c in commands if isinstance(c, FetchDone)] == [FetchOutcome.REFUSED]


def test_a_read_without_an_answer_is_to_be_asked_again(by_hand):
    member = by_hand().join()
    member.tell(FetchWanted(9, (T0,)))
    commands = member.fail(FailureKind.DISCONNECTED, OffsetFetch)
    assert commands[0] == FetchDone(9, FetchOutcome.RETRY)


def test_reads_in_flight_are_answered_at_the_end(by_hand):
    member = by_hand().join()
    member.tell(FetchWanted(9, (T0,)))
    member.tell(LeaveWanted("stop", quietly=True))
    commands = member.commands
    assert FetchDone(9, FetchOutcome.RETRY) in commands
    assert member.tell(FetchWanted(10, (T0,))) == [FetchDone(10, FetchOutcome.RETRY)]


def test_a_heartbeat_answer_while_commits_wait_is_nothing_special(by_hand):
    member = by_hand().join()
    member.commit()
    member.advance(250)
    assert not member.answer(HeartbeatAnswer(0), Heartbeat)
