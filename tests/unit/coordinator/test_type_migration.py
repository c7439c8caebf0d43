"""Going over into a group of another type: the machine, the member's rules, the leader."""

from __future__ import annotations

import attrs
import pytest

from streamlet.assignor.values import Copy, MemberPlan, Plan, Role, Rules, TaskInfo
from streamlet.coordinator.commit_metadata import CommitMetadata, Positions
from streamlet.coordinator.events import (
    Assigned,
    CommitDone,
    CommitOutcome,
    CommitWanted,
    CoordinatorFound,
    Failed,
    FailureKind,
    JoinSoon,
    Lost,
    MigrationOrdered,
    UnblockJoin,
)
from streamlet.coordinator.messages import (
    Committed,
    Heartbeat,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    LeaveGroupAnswer,
    OffsetCommit,
    OffsetCommitAnswer,
)
from streamlet.coordinator.states import MembershipState
from streamlet.errors import FatalGroupError
from streamlet.rebalance import wire
from streamlet.rebalance.envelope import CONSUMER, STREAM, open_assignment
from streamlet.rebalance.protocol import TasksProtocol
from streamlet.rebalance.type_migration import LOOK_AGAIN_MS, PAUSE_MS
from streamlet.rebalance.values import (
    Assignment,
    JoinedMember,
    NeedMetadata,
    RunAssignor,
    Subscription,
    TypeMigration,
)
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.task_events import (
    Action,
    Activate,
    Close,
    CommitLast,
    HandoverRules,
    JoinDescribed,
    PollMarks,
    PositionsRead,
    Reclaim,
    SetCopies,
    Stop,
    TaskClaimed,
    TaskEvent,
    TaskRunning,
)
from streamlet.tasks.task_record import Unit
from streamlet.types import StateNumber, TaskId, TopicPartition

T, U, V = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)
IN = TopicPartition("in", 0)
TYPES = {"protocol_types": (STREAM, CONSUMER)}
REFUSED = JoinGroupAnswer(23)


# -- the membership machine ------------------------------------------------------------------------


def ordered(by_hand):
    """A member of a group of type "consumer" that has just been told to go over."""
    member = by_hand(protocol_types=(STREAM, CONSUMER))
    member.start()
    member.describe()
    member.answer(REFUSED)
    member.rejoin("a", 4)
    return member, member.tell(MigrationOrdered(STREAM, 4))


def test_a_member_that_is_refused_joins_as_the_other_type(by_hand):
    """Somebody needs the old type; what we want is in our description."""
    member = by_hand(**TYPES)
    member.start()
    assert member.need.protocol_type == STREAM
    member.describe()
    commands = member.answer(REFUSED)
    assert [c.protocol_type for c in commands if isinstance(c, NeedMetadata)] == [CONSUMER]
    assert member.machine.view.state is MembershipState.DESCRIBING


def test_a_group_that_takes_us_as_neither_is_somebody_elses(by_hand):
    member = by_hand(**TYPES)
    member.start()
    for _ in range(40):
        member.describe()
        commands = member.answer(REFUSED)
        if member.machine.view.state is MembershipState.FAILED:
            break
        member.advance(2_000)
    (fail,) = [c for c in commands if isinstance(c, Failed)]
    assert isinstance(fail.error, FatalGroupError)
    assert "another protocol type" in str(fail.error)


def test_an_ordered_member_stops_commits_leaves_and_joins_as_the_other_type(by_hand):
    """Its tasks are not lost meanwhile: they are held."""
    member, commands = ordered(by_hand)
    (due,) = [c for c in commands if isinstance(c, JoinSoon)]
    assert (due.migration, due.generation) == (True, 4)
    member.tell(CommitWanted(1, {IN: (7, "")}, due.token))
    commands = member.answer(OffsetCommitAnswer({IN: 0}), OffsetCommit)
    assert CommitDone(1, CommitOutcome.ACCEPTED) in commands
    member.tell(UnblockJoin(due.token))
    assert member.machine.view.state is MembershipState.MIGRATING
    assert not any(isinstance(r, Heartbeat) for r in member.requests())
    commands = member.answer(LeaveGroupAnswer(0), LeaveGroup)
    assert not any(isinstance(c, Lost) for c in commands)
    assert (member.machine.view.member_id, member.machine.view.generation) == ("", -1)
    assert (member.need.protocol_type, member.need.generation) == (STREAM, -1)


def test_it_insists_on_the_new_type_while_others_have_yet_to_leave(by_hand):
    member, commands = ordered(by_hand)
    (due,) = [c for c in commands if isinstance(c, JoinSoon)]
    member.tell(UnblockJoin(due.token))
    member.answer(LeaveGroupAnswer(0), LeaveGroup)
    for _ in range(20):
        member.describe()
        member.answer(REFUSED)
        member.advance(150)
        assert member.need.protocol_type == STREAM
    # A member that never leaves must not keep us out of the group for ever.
    member.advance(member.config.rebalance_timeout_ms)
    member.describe()
    member.answer(REFUSED)
    member.advance(2_000)
    assert member.need.protocol_type == CONSUMER


def test_a_member_whose_commit_takes_too_long_stays_and_is_ordered_again(by_hand):
    member, commands = ordered(by_hand)
    (due,) = [c for c in commands if isinstance(c, JoinSoon)]
    member.wait(member.config.rebalance_timeout_ms // 2)
    assert (member.need.protocol_type, member.need.generation) == (CONSUMER, 4)
    member.tell(UnblockJoin(due.token))
    assert member.machine.view.state is MembershipState.DESCRIBING


def test_a_leave_that_is_never_answered_is_waited_for_only_so_long(by_hand):
    member, commands = ordered(by_hand)
    (due,) = [c for c in commands if isinstance(c, JoinSoon)]
    member.tell(UnblockJoin(due.token))
    member.wait(member.config.leave_timeout_ms)
    assert member.machine.view.generation == -1


def test_a_commit_without_an_answer_does_not_outlive_the_membership(by_hand):
    """What it covers is not kept: whoever gets the task reads the positions again."""
    member, commands = ordered(by_hand)
    (due,) = [c for c in commands if isinstance(c, JoinSoon)]
    member.tell(CommitWanted(1, {IN: (7, "")}, due.token))
    commands = member.fail(FailureKind.DISCONNECTED, OffsetCommit)
    assert CommitDone(1, CommitOutcome.UNKNOWN) in commands
    member.tell(UnblockJoin(due.token))
    member.advance(100)
    member.tell(CoordinatorFound("one"))
    member.answer(LeaveGroupAnswer(0), LeaveGroup)
    assert member.machine.view.generation == -1
    member.describe()


def test_an_order_of_an_older_generation_is_none(by_hand):
    member = by_hand(**TYPES).join("a", 9)
    assert not [c for c in member.tell(MigrationOrdered(CONSUMER, 8)) if isinstance(c, JoinSoon)]


def test_a_group_that_changed_its_type_without_us_has_given_our_tasks_away(by_hand):
    member = by_hand(**TYPES).join("a", 4)
    member.beat(27)
    member.describe()
    commands = member.answer(REFUSED, JoinGroup)
    assert any(isinstance(c, Lost) for c in commands)


# -- the member's rules ----------------------------------------------------------------------------


def after(manager: TaskManager, *events: TaskEvent) -> list[Action]:
    """The actions that follow from these events."""
    return [action for event in events for action in manager.handle(event, 0)]


def owner(*tasks: TaskId) -> TaskManager:
    manager = TaskManager(HandoverRules())
    after(manager, Assigned(1, "me", Assignment(active=frozenset(tasks))))
    for task in tasks:
        after(manager, TaskRunning(task), TaskClaimed(task))
    order = Assignment(active=frozenset(tasks), migration=TypeMigration(STREAM, 2, 60_000))
    after(manager, Assigned(4, "me", order))
    return manager


def migration(generation: int) -> JoinSoon:
    return JoinSoon(-1, generation, migration=True)


def test_f2_what_was_committed_is_held_and_f3_claimed_with_the_old_generation():
    manager = owner(T, U)
    unit = Unit(-1, 4, (T, U), for_migration=True)
    assert after(manager, migration(4)) == [Stop((T, U)), CommitLast(unit)]
    assert after(manager, CommitDone(-1, CommitOutcome.ACCEPTED)) == [UnblockJoin(-1)]
    manager.check_invariants()
    after(manager, JoinDescribed())
    assert manager.view({}) == {T: Copy(Role.ACTIVE, 4), U: Copy(Role.ACTIVE, 4)}
    assert manager.busy


@pytest.mark.parametrize("outcome", [CommitOutcome.UNKNOWN, CommitOutcome.GATED])
def test_f2_without_an_acknowledged_commit_nothing_is_kept(outcome):
    manager = owner(T)
    after(manager, migration(4))
    assert after(manager, CommitDone(-1, outcome)) == [Close(T), UnblockJoin(-1)]
    after(manager, JoinDescribed())
    assert manager.view({}) == {}


def test_f2_a_task_that_is_being_opened_is_not_held():
    """One that runs is, claimed or not: its last commit says whose it is."""
    manager = owner(T)
    order = Assignment(active=frozenset({T, U, V}), migration=TypeMigration(STREAM, 2, 1))
    after(manager, Assigned(5, "me", order), TaskRunning(V))
    assert after(manager, migration(5)) == [
        Close(U),
        Stop((T, V)),
        CommitLast(Unit(-1, 5, (T, V), for_migration=True)),
    ]


def test_a_member_without_tasks_goes_over_at_once():
    manager = owner()
    assert after(manager, migration(4)) == [UnblockJoin(-1)]


def test_f4_a_held_task_that_is_ours_again_is_reclaimed_and_any_other_closed():
    manager = owner(T, U)
    after(manager, migration(4), CommitDone(-1, CommitOutcome.ACCEPTED))
    order = Assignment(active=frozenset({T, V}))
    decisions = after(manager, Assigned(6, "new me", order))
    assert decisions == [Close(U), Activate(V), PollMarks((T,))]
    manager.check_invariants()
    found = Positions.of((IN,), {IN: Committed(7, "")})
    assert after(manager, PositionsRead(T, found)) == [Reclaim(T, found)]
    manager.check_invariants()
    after(manager, TaskRunning(T))
    assert not manager.claims[T].claimed, "a new active period begins with a claim (M4)"


def test_m1_a_loss_takes_what_is_held_too():
    manager = owner(T)
    after(manager, migration(4), CommitDone(-1, CommitOutcome.ACCEPTED))
    assert after(manager, Lost("gone")) == [Close(T)]
    assert manager.claims == {}


def test_an_order_that_the_group_has_gone_beyond_stops_nothing():
    manager = owner(T)
    after(manager, Assigned(5, "me", Assignment(active=frozenset({T}))))
    assert after(manager, migration(4)) == [UnblockJoin(-1)]


def test_copies_are_closed_only_if_the_other_group_wants_them_no_more():
    manager = owner(T)
    order = Assignment(
        active=frozenset({T}), standby=frozenset({U}), migration=TypeMigration(STREAM, 2, 1)
    )
    actions = after(manager, Assigned(5, "me", order))
    assert SetCopies(frozenset(), frozenset({U})) in actions
    after(manager, migration(5), CommitDone(-1, CommitOutcome.ACCEPTED), JoinDescribed())
    assert manager.view({})[U].role is Role.STANDBY
    over = attrs.evolve(order, migration=None)
    assert after(manager, Assigned(6, "new me", over)) == [PollMarks((T,))]


@pytest.mark.parametrize(
    ("offset", "by", "epoch", "same"),
    [(7, "me", 3, True), (8, "me", 3, False), (7, "D", 3, False), (7, "me", 4, False)],
)
def test_f4_offset_who_and_epoch_are_all_compared(offset, by, epoch, same):
    """V13: the offset alone may be where it was, though another epoch began and ended there."""
    text = CommitMetadata(epoch, by, 5, {}, StateNumber(epoch, 1), None).to_text()
    found = Positions.of((IN,), {IN: Committed(offset, text)})
    assert found.are({IN: 7}, "me", 3) is same
    assert not Positions.of((IN,), {IN: Committed(7, "")}).are({IN: 7}, "me", 3)


# -- the leader ------------------------------------------------------------------------------------


class Group:
    """Members' protocols, and a leader that plans for them."""

    def __init__(self, *modes: str, protocol_type: str = CONSUMER, latest: int = 2) -> None:
        """``latest``: the version that the second one knows at most."""
        self.plan = Plan({})
        self.now_ms = 1_000
        self.protocol_type = protocol_type
        tasks = [TaskInfo(task, stateful=True) for task in (T, U, V)]
        self.members = {
            f"m{number}": TasksProtocol(
                Subscription(f"p{number}", f"h{number}", mode=mode),
                Rules(),
                lambda _: self.plan,
                tasks=lambda: tasks,
                wall_ms=lambda: self.now_ms,
                rejoin=lambda reason: None,
                migration_timeout_ms=60_000,
                latest=latest if number == 1 else 2,
            )
            for number, mode in enumerate(modes)
        }

    def round(self, **copies: dict[TaskId, Copy]) -> dict[str, Assignment]:
        """Everybody says what it has (a member that is left out does not join), the first leads."""
        joined = []
        for name, held in copies.items():
            need = NeedMetadata(1, name, -1, 1, protocol_type=self.protocol_type)
            ((_, data),) = self.members[name].subscribe(need, held)
            joined.append(JoinedMember(name, None, data))
        leader = next(iter(copies))
        answers = self.members[leader].assign(RunAssignor(5, tuple(joined), 0, leader))
        told = {name: self.members[name].decode(data) for name, data in answers.items()}
        assert told == {
            name: wire.decode_assignment(open_assignment(data, self.protocol_type))
            for name, data in answers.items()
        }
        return told


def active(*tasks: TaskId, generation: int = 4) -> dict[TaskId, Copy]:
    return {task: Copy(Role.ACTIVE, generation) for task in tasks}


def test_f1_when_all_want_it_all_are_ordered_and_keep_what_they_have():
    group = Group("incremental", "incremental")
    group.plan = Plan({"m0": MemberPlan(active=frozenset({T, U, V}))})
    told = group.round(m0=active(T), m1={**active(U), V: Copy(Role.STANDBY, lag=3)})
    assert told["m0"].migration == told["m1"].migration == TypeMigration(STREAM, 2, 61_000)
    assert (told["m0"].active, told["m1"].active) == ({T}, {U})
    assert told["m1"].standby == {V}


@pytest.mark.parametrize("other", ["upgrading", "eager"])
def test_f1_one_that_does_not_want_it_is_enough(other):
    told = Group("incremental", other).round(m0=active(T), m1=active(U))
    assert told["m0"].migration is None


def test_the_way_back_is_the_same():
    told = Group("upgrading", "eager", protocol_type=STREAM).round(m0=active(T), m1={})
    assert told["m1"].migration == TypeMigration(CONSUMER, 2, 61_000)


@pytest.mark.parametrize(
    ("plan", "copies"),
    [
        (Plan({"m0": MemberPlan(release={T: "m1"})}), {}),
        (Plan({"m0": MemberPlan(active=frozenset({T}))}), {T: Copy(Role.PENDING, 4)}),
    ],
)
def test_f1_a_task_on_its_way_comes_first_and_the_leader_looks_again(plan, copies):
    group = Group("incremental", "incremental")
    group.plan = plan
    told = group.round(m0=active(T), m1=copies)
    assert told["m0"].migration is None
    assert told["m0"].follow_up_ms == 1_000 + LOOK_AGAIN_MS


def test_f1_a_member_whose_version_cannot_be_told_is_waited_for():
    group = Group("incremental", "incremental", latest=1)
    assert group.round(m0=active(T), m1={})["m0"].migration is None


def test_until_all_have_come_over_everybody_is_given_what_it_claims():
    """Whoever comes first finds an empty group, and must not take what the others hold."""
    group = Group("incremental", "incremental", "incremental")
    group.round(m0=active(T), m1=active(U), m2=active(V))
    group.protocol_type = STREAM
    group.plan = Plan({"m0": MemberPlan(active=frozenset({T, U, V}))})
    told = group.round(m0=active(T))
    assert (told["m0"].active, told["m0"].follow_up_ms) == ({T}, 61_000)
    assert group.members["m0"].gathering
    told = group.round(m1=active(U), m0=active(T))
    assert (told["m0"].active, told["m1"].active) == ({T}, {U})
    group.plan = Plan({"m0": MemberPlan(active=frozenset({T, U})), "m2": MemberPlan()})
    told = group.round(m0=active(T), m1=active(U), m2=active(V))
    assert told["m0"].active == {T, U}, "all are there: the plan counts again"
    assert not group.members["m0"].gathering


def test_a_process_that_was_restarted_on_the_way_is_one_of_those_that_come():
    group = Group("incremental", "incremental")
    group.round(m0=active(T), m1=active(U))
    group.protocol_type = STREAM
    assert group.round(m0=active(T))["m0"].active == {T}
    group.plan = Plan({"m0": MemberPlan(active=frozenset({T, U})), "m1": MemberPlan()})
    group.members["m1"] = Group("incremental", "incremental").members["m1"]
    assert group.round(m0=active(T), m1={})["m0"].active == {T, U}


def test_who_never_comes_over_is_waited_for_only_so_long():
    group = Group("incremental", "incremental")
    group.round(m0=active(T), m1=active(U))
    group.protocol_type = STREAM
    group.plan = Plan({"m0": MemberPlan(active=frozenset({T, U}))})
    assert group.round(m0=active(T))["m0"].active == {T}
    group.now_ms = 61_000
    assert group.round(m0=active(T))["m0"].active == {T, U}


def test_who_was_left_alone_and_ordered_by_itself_counts_among_all():
    group = Group("incremental", "incremental")
    group.round(m0=active(T), m1=active(U))
    group.round(m1=active(T, U, generation=5))
    group.protocol_type = STREAM
    told = group.round(m0=active(T), m1=active(T, U, generation=5))
    assert not group.members["m0"].gathering
    assert told["m0"].migration is None


def test_after_a_migration_that_all_came_back_from_the_next_is_not_ordered_soon():
    """Else a member whose batches take too long would stop everybody again and again."""
    group = Group("incremental", "incremental")
    assert group.round(m0=active(T), m1=active(U))["m0"].migration is not None
    told = group.round(m0=active(T, generation=4), m1=active(U, generation=4))
    assert told["m0"].migration is None
    assert told["m0"].follow_up_ms == 61_000 + PAUSE_MS
    group.now_ms = 61_000 + PAUSE_MS
    assert group.round(m0=active(T), m1=active(U))["m0"].migration is not None


def test_one_that_was_left_behind_is_ordered_after_the_others_at_once():
    group = Group("incremental", "incremental")
    group.round(m0=active(T), m1=active(U))
    assert group.round(m1=active(U))["m1"].migration == TypeMigration(STREAM, 1, 61_000)


def test_f5_of_two_claims_the_newer_counts():
    """The one that stayed behind worked on; what the other holds is stale."""
    group = Group("incremental", "incremental", "incremental")
    group.round(m0=active(T), m1=active(U), m2={})
    group.protocol_type = STREAM
    told = group.round(m0=active(T), m1=active(T, U, generation=5))
    assert (told["m0"].active, told["m1"].active) == (frozenset(), {T, U})
