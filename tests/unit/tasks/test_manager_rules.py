"""Each rule of the hand-over protocol on one member's side, named as the protocol names it."""

from __future__ import annotations

import attrs
import pytest

from streamlet.assignor.values import Copy, Leaving, Role
from streamlet.coordinator.commit_metadata import CommitMetadata, Positions
from streamlet.coordinator.events import (
    Assigned,
    CommitDone,
    CommitOutcome,
    JoinBlocked,
    JoinSoon,
    Lost,
    Rejoin,
    Tick,
    UnblockJoin,
)
from streamlet.coordinator.messages import Committed
from streamlet.rebalance.values import Assignment
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.task_events import (
    Action,
    Activate,
    Close,
    CommitLast,
    CopyLag,
    GiveUp,
    HandoverRules,
    JoinDescribed,
    LeaveForGood,
    LeavingSet,
    PollMarks,
    PositionsRead,
    ResumeTask,
    SetCopies,
    Stop,
    TaskClaimed,
    TaskEvent,
    TaskFailed,
    TaskRunning,
)
from streamlet.tasks.task_record import Unit, mark_until_ms
from streamlet.types import StateNumber, TaskId, TopicPartition

T, U = TaskId(0, 0), TaskId(0, 1)
INPUTS = (TopicPartition("a", 0), TopicPartition("b", 0))
NOTHING: frozenset[TaskId] = frozenset()


def mark(to: str | None, generation: int, *, inputs: int = 2) -> Positions:
    """Committed positions of two inputs, the first ``inputs`` of them with a mark."""
    text = CommitMetadata(3, "a", generation, {}, StateNumber(3, 1), to).to_text()
    texts = [text] * inputs + [""] * (2 - inputs)
    committed = {tp: Committed(7, said) for tp, said in zip(INPUTS, texts, strict=True)}
    return Positions.of(INPUTS, committed)


@attrs.define
class By:
    """A member by hand; each call gives the actions that follow."""

    manager: TaskManager
    now_ms: int = 0
    generation: int = 0

    def happened(self, *events: TaskEvent) -> list[Action]:
        actions: list[Action] = []
        for event in events:
            actions += self.manager.handle(event, self.now_ms)
            self.manager.check_invariants()
        return actions

    def assigned(self, **orders: object) -> list[Action]:
        self.generation += 1
        order = Assignment(**orders)  # type: ignore[arg-type]
        return self.happened(Assigned(self.generation, "me", order))

    def runs(self, *tasks: TaskId) -> None:
        for task in tasks:
            self.happened(TaskRunning(task), TaskClaimed(task))

    def fetched(self, positions: Positions | None, task: TaskId = T) -> list[Action]:
        return self.happened(PositionsRead(task, positions))

    def later(self, ms: int) -> list[Action]:
        self.now_ms += ms
        return self.happened(Tick())

    def hold(self, token: int, granted: bool = True) -> list[Action]:
        return self.happened(JoinBlocked(token, granted))

    def committed(self, token: int, outcome: CommitOutcome) -> list[Action]:
        return self.happened(CommitDone(token, outcome))

    def progress(self, task: TaskId, lag: int) -> list[Action]:
        return self.happened(CopyLag(task, lag))

    def joins(self, generation: int | None = None) -> list[Action]:
        """A join is due, after an assignment of this generation: the last one."""
        return self.happened(JoinSoon(-1, self.generation if generation is None else generation))

    def says(self, task: TaskId = T) -> Copy | None:
        return self.manager.view({}).get(task)


def member(**rules: object) -> By:
    return By(TaskManager(HandoverRules(**rules)))  # type: ignore[arg-type]


def owner(*tasks: TaskId, **rules: object) -> By:
    """A member that runs tasks since generation 1."""
    by = member(**rules)
    by.assigned(active=frozenset(tasks))
    by.runs(*tasks)
    return by


def waiting(**rules: object) -> By:
    """A member that waits for T by an order of generation 1."""
    by = member(**rules)
    by.assigned(pending={T: "a"})
    return by


# -- claims ----------------------------------------------------------------------------------------


def test_m1_who_loses_its_member_id_stops_everything_writes_nothing_and_claims_nothing() -> None:
    by = owner(T)
    by.assigned(active=frozenset({T}), pending={U: "a"})
    assert by.happened(Lost("gone"))[0] == Close(T)
    assert by.says(T) is None
    assert by.says(U) == Copy(Role.LEARNER)


def test_m3_a_new_owner_reads_the_positions_first_and_one_that_stays_does_nothing() -> None:
    by = member()
    assert by.assigned(active=frozenset({T}))[0] == Activate(T)
    by.runs(T)
    assert by.assigned(active=frozenset({T})) == []
    assert by.says() == Copy(Role.ACTIVE, 2)


def test_m4_a_task_is_not_given_up_before_its_claim_stands() -> None:
    by = member()
    by.assigned(active=frozenset({T}))
    by.happened(TaskRunning(T))
    assert by.assigned(release={T: "b"}) == []
    assert by.happened(TaskClaimed(T)) == [GiveUp(Unit(1, 2, (T,), {T: "b"}))]


def test_l5_a_task_that_was_given_away_is_dropped_without_a_commit() -> None:
    by = owner(T)
    assert by.assigned() == [Close(T)]


# -- releasing -------------------------------------------------------------------------------------


def test_m5_a_release_is_one_unit_hold_stop_commit_release() -> None:
    by = owner(T, U)
    (ask,) = by.assigned(release={T: "b"}, active=frozenset({U}))
    assert ask == GiveUp(Unit(1, 2, (T,), {T: "b"}))
    assert by.says() == Copy(Role.ACTIVE, 2), "nothing has begun"
    assert by.hold(1) == [Stop((T,)), CommitLast(Unit(1, 2, (T,), {T: "b"}))]
    assert by.committed(1, CommitOutcome.ACCEPTED) == [Close(T), UnblockJoin(1)]
    assert by.says() == Copy(Role.RELEASED)
    assert by.says(U) == Copy(Role.ACTIVE, 2)


def test_m5_a_unit_that_may_not_begin_leaves_the_task_running_and_is_asked_for_again() -> None:
    by = owner(T)
    by.assigned(release={T: "b"})
    assert by.hold(1, granted=False) == []
    assert by.says() == Copy(Role.ACTIVE, 2)
    assert by.later(1) == []
    assert by.later(50) == [GiveUp(Unit(2, 2, (T,), {T: "b"}))]


def test_m5_an_order_that_was_replaced_ends_its_hold_unused() -> None:
    by = owner(T)
    by.assigned(release={T: "b"})
    assert by.assigned(active=frozenset({T})) == []
    assert by.hold(1) == [UnblockJoin(1)]


@pytest.mark.parametrize("outcome", [CommitOutcome.GATED, CommitOutcome.SWITCHED])
def test_m5_a_mark_that_was_turned_away_lets_the_task_go_on(outcome: CommitOutcome) -> None:
    by = owner(T)
    by.assigned(release={T: "b"})
    by.hold(1)
    assert by.committed(1, outcome) == [ResumeTask(T), UnblockJoin(1)]
    assert by.says() == Copy(Role.ACTIVE, 2)


def test_m6_a_mark_whose_outcome_is_unknown_counts_as_released() -> None:
    """V5: it may have arrived, or may arrive yet; said to be active the task could run twice."""
    by = owner(T)
    by.assigned(release={T: "b"})
    by.hold(1)
    assert by.committed(1, CommitOutcome.UNKNOWN) == [Close(T), UnblockJoin(1)]
    assert by.says() == Copy(Role.RELEASED)


def test_a_revoked_task_is_committed_without_a_mark_and_then_everybody_plans_again() -> None:
    by = owner(T)
    by.assigned(revoke=frozenset({T}))
    assert by.hold(1)[1] == CommitLast(Unit(1, 2, (T,)))
    closed, rejoin, end = by.committed(1, CommitOutcome.ACCEPTED)
    assert (closed, end) == (Close(T), UnblockJoin(1))
    assert isinstance(rejoin, Rejoin), "before the hold ends: one join does for both"


def test_a_revoked_task_that_never_ran_has_nothing_to_commit() -> None:
    by = member()
    by.assigned(active=frozenset({T}))
    assert by.assigned(revoke=frozenset({T}))[0] == Close(T)


def test_a_released_copy_can_stay_as_a_standby() -> None:
    by = owner(T)
    by.assigned(release={T: "b"}, standby=frozenset({T}))
    by.hold(1)
    assert SetCopies(NOTHING, frozenset({T})) in by.committed(1, CommitOutcome.ACCEPTED)
    by.assigned(standby=frozenset({T}))
    assert by.says() == Copy(Role.STANDBY)


# -- taking over -----------------------------------------------------------------------------------


def test_m7_the_mark_of_the_order_held_is_waited_for_and_activates_in_place() -> None:
    by = member()
    decisions = by.assigned(pending={T: "a"})
    assert decisions == [SetCopies(frozenset({T}), NOTHING), PollMarks((T,))]
    assert by.fetched(None) == []
    assert by.later(by.manager.rules.idle_poll_ms) == [PollMarks((T,))]
    found = mark("me", 1)
    assert by.fetched(found) == [SetCopies(NOTHING, NOTHING), Activate(T, found)]
    assert by.says() == Copy(Role.ACTIVE, 1)


def test_once_the_owner_has_committed_its_mark_is_looked_for_more_often_for_a_while() -> None:
    by = member()
    by.assigned(pending={T: "a"})
    rare, often = by.manager.rules.idle_poll_ms, by.manager.rules.poll_ms
    for found, pause_ms in [
        (mark("x", 1), rare),  # that may be an old one
        (None, rare),
        (mark("x", 1), rare),
        (mark("y", 1), often),
        (None, often),
        (mark("y", 1), often),
    ]:
        by.fetched(found)
        assert by.manager.due_ms() == by.now_ms + pause_ms
        assert by.later(pause_ms) == [PollMarks((T,))]
    assert by.later(300) == [], "it is on its way"
    by.fetched(mark("y", 1))
    assert by.manager.due_ms() == by.now_ms + rare


def test_nobody_hurries_before_the_owner_begins_to_give_the_task_up() -> None:
    by = member()
    by.assigned(pending={T: "a"})
    by.fetched(mark("x", 1))
    assert (by.manager.busy, by.manager.urgent(0), by.manager.near(0)) == (True, False, NOTHING)
    by.fetched(mark("y", 1))
    assert mark_until_ms(by.manager.records.values()) == 80, "one commit is soon behind another"
    assert (by.manager.urgent(299), by.manager.near(299)) == (True, frozenset({T}))
    assert (by.manager.urgent(300), by.manager.near(300)) == (False, NOTHING), "a usual commit"
    by.fetched(mark("me", 1))
    assert (by.manager.urgent(300), by.manager.near(300)) == (True, frozenset({T}))
    by.runs(T)
    assert (by.manager.urgent(300), by.manager.near(300)) == (False, NOTHING)


def test_an_owner_hurries_from_the_stop_on() -> None:
    by = owner(T)
    by.assigned(release={T: "b"})
    assert (by.manager.busy, by.manager.urgent(0)) == (True, False)
    by.hold(1)
    assert by.manager.urgent(0)
    by.committed(1, CommitOutcome.ACCEPTED)
    assert not by.manager.urgent(0)


@pytest.mark.parametrize(
    "found",
    [mark("me", 2), mark("other", 1), mark(None, 1), mark("me", 1, inputs=1), mark("me", 0)],
    ids=["V1 a newer order's", "for somebody else", "no mark", "not on every input", "V4 an old"],
)
def test_m7_no_other_mark_counts(found: Positions) -> None:
    by = waiting()
    assert by.fetched(found) == []
    assert by.says() == Copy(Role.PENDING, 1)


def test_m7_a_newer_assignment_replaces_the_order() -> None:
    by = waiting()
    by.assigned(pending={T: "a"})
    assert by.fetched(mark("me", 1)) == [], "the mark of the old order"
    by.later(20)
    assert by.fetched(mark("me", 2))[-1] == Activate(T, mark("me", 2))


def test_m7_an_order_that_was_taken_back_is_never_acted_upon() -> None:
    by = waiting()
    by.assigned(learner=frozenset({T}))
    assert by.fetched(mark("me", 1)) == []
    assert by.fetched(mark("me", 2)) == []
    assert by.says() == Copy(Role.LEARNER)


def test_m7_a_join_under_way_changes_nothing_the_mark_may_come_meanwhile() -> None:
    """V2: what was described as pending binds the leader, so it may be acted upon."""
    by = waiting()
    assert by.happened(JoinDescribed()) == []
    assert by.says() == Copy(Role.PENDING, 1)
    assert by.fetched(mark("me", 1))[-1] == Activate(T, mark("me", 1))
    by.runs(T)
    assert by.assigned(active=frozenset({T})) == []


def test_l2_a_task_given_outright_to_who_waits_is_opened_from_its_committed_positions() -> None:
    by = waiting()
    assert Activate(T) in by.assigned(active=frozenset({T}))


def test_m8_who_cannot_open_the_task_joins_without_the_claim_and_never_acts_on_it_again() -> None:
    by = waiting()
    by.fetched(mark("me", 1))
    assert Rejoin("cannot take over 0_0: no room") in by.happened(TaskFailed(T, "no room"))
    assert by.says() is None
    assert by.fetched(mark("me", 1)) == []


def test_m8_a_hand_over_that_does_not_proceed_is_given_back() -> None:
    by = waiting(timeout_ms=1_000)
    assert not [d for d in by.later(999) if isinstance(d, Rejoin)]
    assert [d for d in by.later(1) if isinstance(d, Rejoin)]
    assert by.says() == Copy(Role.LEARNER)
    assert by.fetched(mark("me", 1)) == []


def test_the_longer_a_mark_does_not_come_the_less_often_it_is_looked_for() -> None:
    by = waiting(timeout_ms=100_000)
    by.now_ms = 1_600
    by.fetched(None)
    due_ms = by.manager.due_ms()
    assert due_ms is not None
    assert 5 < due_ms - by.now_ms <= 250


def test_a_copy_released_to_another_member_is_as_far_behind_as_it_reads_not_as_it_was() -> None:
    """The next_owner processes on, and nothing makes the group plan again: hours may pass."""
    by = owner(T, acceptable_lag=0)
    by.assigned(release={T: "b"}, standby=frozenset({T}))
    by.hold(1)
    by.committed(1, CommitOutcome.ACCEPTED)
    assert by.says() == Copy(Role.RELEASED), "how far the next_owner went is not known"
    by.progress(T, 3)
    assert by.says() == Copy(Role.RELEASED, lag=3)
    by.progress(T, 0)
    assert by.says() == Copy(Role.RELEASED, ready=True, lag=0)


def test_a_copy_given_up_for_the_next_plan_is_exact() -> None:
    """Until that plan comes no other member may process the task."""
    by = owner(T)
    by.assigned(revoke=frozenset({T}))
    by.hold(1)
    by.committed(1, CommitOutcome.ACCEPTED)
    assert by.says() == Copy(Role.RELEASED, ready=True, lag=0)


# -- standbys that others make way for -------------------------------------------------------------


def test_an_awaited_standby_that_has_caught_up_asks_for_a_rebalance_once() -> None:
    by = owner(U, acceptable_lag=10)
    by.assigned(active=frozenset({U}), standby=frozenset({T}), awaited=frozenset({T}))
    by.progress(T, 11)
    assert by.later(2_000) == []
    by.progress(T, 10)
    assert by.later(60) == [Rejoin("a standby that another makes way for is ready")]
    by.happened(JoinDescribed())
    by.assigned(active=frozenset({U}), standby=frozenset({T}), awaited=frozenset({T}))
    by.progress(T, 9)
    assert by.later(2_000) == []


def test_a_standby_that_was_ready_before_it_is_awaited_asks_too() -> None:
    """It became ready after the description that the plan was made of."""
    by = owner(U)
    by.assigned(active=frozenset({U}), standby=frozenset({T}))
    by.progress(T, 0)
    assert by.later(2_000) == [], "no other standby waits for this one"
    by.assigned(active=frozenset({U}), standby=frozenset({T}), awaited=frozenset({T}))
    assert by.later(60) == [Rejoin("a standby that another makes way for is ready")]


# -- giving up at joins ----------------------------------------------------------------------------


def test_l7_an_owner_that_surrenders_commits_what_is_learned_before_it_joins() -> None:
    by = owner(T, U, gives_up_at_joins=True)
    by.assigned(active=frozenset({T, U}), being_learned=frozenset({T}))
    assert by.joins() == [Stop((T,)), CommitLast(Unit(-1, by.generation, (T,), for_join=True))]
    assert by.committed(-1, CommitOutcome.ACCEPTED) == [Close(T), UnblockJoin(-1)]
    assert by.says() == Copy(Role.RELEASED, ready=True, lag=0)
    assert by.says(U) == Copy(Role.ACTIVE, 2)
    assert by.assigned(active=frozenset({T, U}))[0] == Activate(T), "it may get it back"


def test_an_owner_with_nothing_to_surrender_lets_the_join_go_on_at_once() -> None:
    by = owner(T, gives_up_at_joins=True)
    assert by.joins() == [UnblockJoin(-1)]


def test_a_join_before_the_claim_waits_until_what_was_processed_is_committed() -> None:
    """Else the next owner would process it again."""
    by = member(stops_at_joins=True)
    by.assigned(active=frozenset({T, U}))
    by.happened(TaskRunning(T))
    done = by.joins()
    assert Close(U) in done, "it never ran"
    assert done[-2:] == [Stop((T,)), CommitLast(Unit(-1, by.generation, (T,), for_join=True))]
    assert by.happened(TaskClaimed(T)) == []
    assert by.committed(-1, CommitOutcome.ACCEPTED) == [Close(T), UnblockJoin(-1)]


def test_eager_members_stop_everything_at_each_join() -> None:
    by = owner(T, U, stops_at_joins=True)
    assert by.joins()[0] == Stop((T, U))


def test_a_join_that_was_not_waited_for_any_longer_takes_nothing_from_the_next_assignment() -> None:
    """The worker was busy for so long that the group went on and gave us our tasks again."""
    by = owner(T, stops_at_joins=True)
    by.assigned(active=frozenset({T, U}))
    assert by.joins(by.generation - 1) == [UnblockJoin(-1)]
    assert by.says(U) == Copy(Role.ACTIVE, by.generation)


def test_a_join_that_becomes_due_in_the_middle_of_a_unit_comes_after_it() -> None:
    by = owner(T, U, stops_at_joins=True)
    by.assigned(release={T: "b"}, active=frozenset({U}))
    by.hold(1)
    assert by.joins() == []
    done = by.committed(1, CommitOutcome.ACCEPTED)
    assert done[:2] == [Close(T), UnblockJoin(1)]
    assert done[2:] == [Stop((U,)), CommitLast(Unit(-1, by.generation, (U,), for_join=True))]


# -- learning --------------------------------------------------------------------------------------


def test_learners_that_become_ready_together_share_a_rebalance() -> None:
    by = member(linger_ms=50)
    by.assigned(learner=frozenset({T, U}))
    assert by.progress(T, 1_000) == []
    assert by.later(30) == []
    assert by.progress(U, 0) == []
    assert [type(d) for d in by.later(20)] == [Rejoin]
    by.happened(JoinDescribed())
    assert by.later(1_000) == [], "the group knows"


def test_a_ready_learner_reads_on_for_a_while_before_the_group_is_told() -> None:
    """What it has not read when the owner stops is time in which nobody runs the task."""
    by = member(linger_ms=50, settle_ms=500)
    by.assigned(learner=frozenset({T}))
    assert by.progress(T, 9_000) == []
    assert by.later(100) == []
    assert by.manager.due_ms() == 550
    assert [type(d) for d in by.progress(T, 900)] == [Rejoin]
    by.happened(JoinDescribed())
    by.assigned(learner=frozenset({T, U}))
    by.progress(U, 10_000)
    assert by.later(549) == []
    assert [type(d) for d in by.later(1)] == [Rejoin], "it may never get nearer"


def test_learners_that_waited_for_a_hand_over_are_looked_at_again_before_the_group_is_told() -> (
    None
):
    by = waiting(linger_ms=50)
    by.assigned(pending={T: "a"}, learner=frozenset({U}))
    by.progress(U, 0)
    by.later(100)
    assert Activate(T, mark("me", by.generation)) in by.fetched(mark("me", by.generation))
    assert by.later(100) == []
    by.happened(TaskRunning(T))
    assert by.later(49) == []
    assert [type(d) for d in by.later(1)] == [Rejoin]


def test_without_partial_rebalances_all_learners_must_be_ready() -> None:
    by = member(partial=False, linger_ms=0)
    by.assigned(learner=frozenset({T, U}))
    assert by.progress(T, 0) == []
    assert [type(d) for d in by.progress(U, 0)] == [Rejoin]


def test_a_standby_that_catches_up_is_no_reason_to_rebalance() -> None:
    by = member(linger_ms=0)
    by.assigned(standby=frozenset({T}))
    assert by.progress(T, 0) == []
    assert by.says() == Copy(Role.STANDBY, ready=True, lag=0)


def test_the_next_part_of_a_plan_is_called_for_at_its_time_unless_a_later_plan_overtakes_it() -> (
    None
):
    by = member()
    by.assigned(follow_up_ms=500)
    by.assigned(follow_up_ms=900)
    assert by.later(899) == []
    assert [type(d) for d in by.later(1)] == [Rejoin]


def test_a_static_owner_has_the_plan_forget_what_it_gave_up() -> None:
    """A restart would be handed the order once more, and cost a rebalance then."""
    by = owner(T, U, static=True)
    by.assigned(active=frozenset({U}), release={T: "b"})
    by.hold(1)
    done = by.committed(1, CommitOutcome.ACCEPTED)
    assert not [d for d in done if isinstance(d, Rejoin)], "the new owner may be at it"
    assert by.later(by.manager.rules.confirm_delay_ms) == [
        Rejoin("a static member gave up what it was to")
    ]
    assert by.later(1_000) == [], "once is enough"


def test_the_new_owner_may_have_had_it_forgotten_before() -> None:
    by = owner(T, U, static=True)
    by.assigned(active=frozenset({U}), release={T: "b"})
    by.hold(1)
    by.committed(1, CommitOutcome.ACCEPTED)
    by.assigned(active=frozenset({U}))
    assert by.later(by.manager.rules.confirm_delay_ms) == []


# -- leaving ---------------------------------------------------------------------------------------


def leaving(*tasks: TaskId) -> By:
    """An owner that has told the group that it leaves."""
    by = owner(*tasks)
    assert by.happened(LeavingSet(Leaving(0))) == [Rejoin("leaving")]
    by.happened(JoinDescribed())
    return by


def test_a_drained_member_leaves_once_an_assignment_without_its_tasks_has_confirmed_it() -> None:
    by = leaving(T)
    by.assigned(release={T: "b"})
    by.hold(1)
    done = by.committed(1, CommitOutcome.ACCEPTED)
    assert not [d for d in done if isinstance(d, LeaveForGood | Rejoin)], "others may be at theirs"
    assert by.manager.due_ms() == by.now_ms + by.manager.rules.confirm_delay_ms
    assert by.later(by.manager.rules.confirm_delay_ms) == [Rejoin("gave up its last task")]
    assert by.later(1_000) == [], "once is enough"
    assert by.manager.due_ms() is None
    assert by.assigned() == [LeaveForGood("drained")]


def test_at_the_deadline_a_member_leaves_as_soon_as_its_marks_are_acknowledged() -> None:
    by = leaving(T)
    by.assigned(release={T: "b"}, leave=True)
    by.hold(1)
    assert LeaveForGood("its time to leave was up") in by.committed(1, CommitOutcome.ACCEPTED)


def test_a_drain_that_was_taken_back_keeps_the_member() -> None:
    by = leaving(T)
    assert by.happened(LeavingSet(None)) == [Rejoin("stays")]
    by.happened(JoinDescribed())
    assert by.assigned() == [Close(T)]


def test_a_member_that_is_to_leave_before_it_joined_says_so_when_it_joins() -> None:
    """There is no earlier word of it to take back: no rebalance more than the join's own."""
    by = member()
    assert by.happened(LeavingSet(Leaving(0))) == []
    by.happened(JoinDescribed())
    assert by.assigned() == [LeaveForGood("drained")]


def test_a_member_with_nothing_to_hand_over_hears_the_last_word_before_it_leaves() -> None:
    """If it leads, the assignment of the rebalance it asked for is still its to make."""
    by = member()
    by.assigned()
    assert by.happened(LeavingSet(Leaving(0)), JoinDescribed()) == [Rejoin("leaving")]
    assert by.later(10) == []
    assert by.assigned() == [LeaveForGood("drained")]
