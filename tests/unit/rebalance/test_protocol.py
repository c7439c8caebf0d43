"""The tasks protocol: descriptions, the leader's plan, orders; each situation by itself."""

from __future__ import annotations

import attrs
import pytest

from streamlet.assignor.values import (
    Copy,
    GroupState,
    Leaving,
    MemberPlan,
    Plan,
    Role,
    Rules,
    TaskInfo,
)
from streamlet.config import Settings
from streamlet.control.values import MemberKey
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.errors import FatalGroupError, RefusedError
from streamlet.rebalance import wire
from streamlet.rebalance.envelope import open_subscription
from streamlet.rebalance.protocol import PROTOCOL, TasksProtocol, rules_from
from streamlet.rebalance.values import (
    Assignment,
    AssignmentError,
    JoinedMember,
    NeedMetadata,
    RunAssignor,
    Subscription,
)
from streamlet.types import TaskId
from tests.unit.rebalance.task_changes import TaskChanges

T00, T01, T02, T10 = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2), TaskId(1, 0)
TASKS = tuple(TaskInfo(task, stateful=True) for task in (T00, T01, T02, T10))
HASHES = (b"sub-0-v1", b"sub-1-v1")
ACTIVE = Copy(Role.ACTIVE, 4)


class Bench:
    """One member's protocol with an assignor that is told what to answer."""

    def __init__(
        self, hashes: tuple[bytes, ...] = HASHES, latest: int = wire.VERSION, **identity: object
    ) -> None:
        self.asked: list[GroupState] = []
        self.rejoins: list[str] = []
        self.answer = Plan({})
        self.before: dict[MemberKey, str] = {}
        belongings, waits = identity.pop("belongings", ()), identity.pop("waits", False)
        self.protocol = TasksProtocol(
            Subscription("process", "host", subtopologies=hashes, **identity),
            Rules(),
            self.assign,
            tasks=lambda: TASKS,
            wall_ms=lambda: 5_000,
            rejoin=self.rejoins.append,
            belongings=belongings,
            latest=latest,
            before=lambda: self.before,
            waits=waits,
        )

    def assign(self, group: GroupState) -> Plan:
        self.asked.append(group)
        return self.answer

    def say(self, copies=None, generation=-1, nonce=1, reduced=0, reason="because") -> bytes:
        need = NeedMetadata(1, "a", generation, nonce, reduced, reason)
        ((name, data),) = self.protocol.subscribe(need, copies or {})
        assert name == PROTOCOL
        return data

    def said(self, *args, **more):
        return wire.decode_subscription(self.say(*args, **more))

    def plan(self, reduced=0, leader="a", **metadata: bytes) -> dict[str, Assignment]:
        members = tuple(JoinedMember(name, None, data) for name, data in metadata.items())
        answers = self.protocol.assign(RunAssignor(5, members, reduced, leader))
        assert answers.keys() == metadata.keys()
        return {name: wire.decode_assignment(data) for name, data in answers.items()}


# -- what a member says ------------------------------------------------------------------------


def test_a_description_says_who_we_are_and_what_we_hold():
    bench = Bench(member=2, instance_members=3, capacity=4.0, tags={"zone": "a"}, instance_id="i-2")
    bench.protocol.leaving = Leaving(1, 2)
    said = bench.said({T01: ACTIVE, T00: Copy(Role.DORMANT, lag=7)}, nonce=9)
    who = said.instance, said.name, said.member, said.instance_members
    assert who == ("process", "host", 2, 3)
    what = said.capacity, said.tags, said.instance_id, said.nonce
    assert what == (4.0, {"zone": "a"}, "i-2", 9)
    assert said.copies == {T00: Copy(Role.DORMANT, lag=7), T01: ACTIVE}
    assert said.subtopologies == HASHES
    assert said.leaving == Leaving(1, 2)


def test_a_member_is_new_until_it_got_an_assignment_and_again_after_losing_its_id():
    """Only newcomers and members that can be emptied count for a deferred rebalance."""
    bench = Bench()
    assert bench.said().joined_generation == -1
    assert bench.said(generation=3).joined_generation == 3
    assert bench.said(generation=8).joined_generation == 3
    assert bench.said(generation=-1).joined_generation == -1


def test_a_running_deferral_travels_in_every_description():
    """A leader that dies must not make the group forget how long it wanted to wait."""
    bench = Bench()
    bench.protocol.decode(wire.encode_assignment(Assignment(deferral_deadline_ms=77)))
    assert bench.said().deferral_deadline_ms == 77
    bench.protocol.decode(wire.encode_assignment(Assignment()))
    assert bench.said().deferral_deadline_ms is None


def test_reduced_descriptions_leave_out_copies_but_never_a_claim():
    bench = Bench(tags={"zone": "a"})
    copies = {
        T00: ACTIVE,
        T01: Copy(Role.STANDBY, lag=4),
        T02: Copy(Role.DORMANT),
        T10: Copy(Role.RELEASED),
    }
    assert bench.said(copies).copies == copies
    assert bench.said(copies, reduced=1).copies.keys() == {T00, T01, T10}
    least = bench.said(copies, reduced=2)
    assert least.copies.keys() == {T00, T10}
    assert least.tags == {}


def test_only_who_asked_for_a_rebalance_says_why():
    bench = Bench()
    assert bench.said(nonce=1).reason == "joined"
    assert bench.said(generation=2, nonce=1, reason="rebalance in progress").reason == ""
    assert bench.said(generation=2, nonce=2, reason="a learner is ready").reason == (
        "a learner is ready"
    )
    assert bench.said(generation=3, nonce=3, reduced=2).reason == ""


def test_the_reason_of_a_rebalance_is_that_of_whoever_asked_for_it():
    leader, other = Bench(), Bench(member=1)
    first = leader.plan(a=leader.say())
    assert first["a"].reason == "host-0: joined"
    other.say()
    quiet = leader.say(generation=5, reason="rebalance in progress")
    asked = other.say(generation=5, nonce=2, reason="a learner is ready")
    assert leader.plan(a=quiet, b=asked)["a"].reason == "host-1: a learner is ready"
    assert leader.plan(a=quiet)["a"].reason == "a member has gone"
    known = [MemberKey("process", n) for n in range(7)]
    leader.before = {key: f"host-{key.number}" for key in known[:2]}
    assert leader.plan(a=quiet)["a"].reason == "host-1 has gone"
    follows = other.say(generation=5, nonce=2)
    assert leader.plan(a=quiet, b=follows)["a"].reason == "a member has gone"
    leader.before = {key: f"host-{key.number}" for key in known[1:]}
    found = leader.plan(a=leader.say(generation=5, nonce=3, reason="a learner is ready"))["a"]
    assert found.reason == (
        "host-1, host-2, host-3 and 3 more have gone, host-0: a learner is ready"
    )
    leader.before = {}
    many = {f"m{n}": Bench(member=n).say() for n in range(5)}
    found = leader.plan(leader="m0", **many)["m0"].reason
    assert found == "host-0: joined, host-1: joined, host-2: joined and 2 more"


# -- what the leader makes of it ---------------------------------------------------------------


def test_the_assignor_gets_everybodys_words_and_the_leaders_own_view():
    bench = Bench()
    mine = bench.say({T00: ACTIVE}, generation=4)
    other = Bench(member=1, learners=False, instance_id="i-1", capacity=3.0).say({T01: ACTIVE})
    bench.plan(a=mine, b=other)
    (group,) = bench.asked
    assert (group.tasks, group.generation, group.now_ms, group.rules) == (TASKS, 5, 5_000, Rules())
    a, b = group.members
    assert (a.member_id, a.copies, a.runs, a.joined_generation) == ("a", {T00: ACTIVE}, None, 4)
    assert (b.number, b.learners, b.instance_id, b.capacity) == (1, False, "i-1", 3.0)


@pytest.mark.parametrize(
    ("hashes", "runs"),
    [
        (HASHES, None),
        ((HASHES[0], b"sub-1-v2"), frozenset({0})),
        ((HASHES[0],), frozenset({0})),
        ((*HASHES, b"sub-2-v2"), None),
        ((), frozenset()),
    ],
)
def test_a_task_goes_only_where_number_and_hash_of_its_subtopology_match(hashes, runs):
    """Two versions of a program run side by side during a rolling upgrade."""
    bench = Bench()
    bench.plan(a=bench.say(), b=Bench(hashes).say())
    assert bench.asked[0].members[1].runs == runs


def test_each_member_gets_its_part_and_the_leader_the_words_for_people():
    bench = Bench()
    bench.answer = Plan(
        {
            "a": MemberPlan(active=frozenset({T00}), revoke=frozenset({T01})),
            "b": MemberPlan(active=frozenset({T10}), standby=frozenset({T00})),
        },
        deferral_deadline_ms=9_000,
    )
    mine = bench.say(nonce=3)
    answers = bench.plan(a=mine, b=Bench().say(nonce=4))
    a, b = answers["a"], answers["b"]
    assert (a.active, a.revoke) == ({T00}, {T01})
    assert (b.active, b.standby) == ({T10}, {T00})
    assert (a.answers_nonce, b.answers_nonce) == (3, 4)
    assert a.deferral_deadline_ms == b.deferral_deadline_ms == 9_000
    assert (a.leader, a.generation, a.made_ms, a.reason) == (
        "a",
        5,
        5_000,
        "host-0: joined, host-0: joined",
    )
    assert (b.leader, b.generation, b.made_ms, b.reason) == ("", -1, None, "")


def test_a_member_the_plan_does_not_name_gets_nothing():
    bench = Bench()
    answers = bench.plan(a=bench.say())
    assert answers["a"].active == frozenset()
    assert answers["a"].error == AssignmentError.NONE


@pytest.mark.parametrize(
    ("follow_up_ms", "revoke", "told"),
    [(None, (), None), (8_000, (), 8_000), (0, (), 5_000), (0, (T00,), None)],
)
def test_only_the_leader_is_told_when_to_join_again(follow_up_ms, revoke, told):
    """Members that revoke rejoin anyway: everybody else would only add rebalances."""
    bench = Bench()
    parts = {"a": MemberPlan(), "b": MemberPlan(revoke=frozenset(revoke))}
    bench.answer = Plan(parts, follow_up_ms=follow_up_ms)
    answers = bench.plan(a=bench.say(), b=Bench().say())
    assert answers["a"].follow_up_ms == told
    assert answers["b"].follow_up_ms is None


def test_owners_that_release_tasks_are_told_when_each_begins():
    bench = Bench()
    bench.answer = Plan(
        {
            "a": MemberPlan(release={T00: "c"}),
            "b": MemberPlan(release={T01: "c"}),
            "c": MemberPlan(),
        }
    )
    answers = bench.plan(a=bench.say(), b=Bench().say(), c=Bench().say())
    assert {name: one.release_delay_ms for name, one in answers.items()} == dict(a=200, b=700, c=0)


def test_a_group_too_large_to_store_is_told_less():
    bench = Bench()
    bench.plan(a=bench.say(), reduced=1)
    assert bench.asked[-1].rules == Rules()
    protocol = bench.protocol
    protocol._rules = Rules(standbys=2)
    answers = bench.plan(a=bench.say(), reduced=2)
    assert bench.asked[-1].rules.standbys == 0
    assert answers["a"].leader == ""


def test_an_instance_that_is_replaced_leaves_only_while_its_successors_stay():
    """The new host may die while it learns: the very plan without it keeps the old one."""
    bench = Bench()
    plain = bench.said()
    old = attrs.evolve(plain, instance="old", leaving=Leaving(1, None, ("new", "newer")))
    new, newer = (attrs.evolve(plain, instance=name) for name in ("new", "newer"))
    goes_too = attrs.evolve(newer, leaving=Leaving(2))

    def leaving(*others: Subscription) -> Leaving | None:
        told = {f"m{n}": wire.encode_subscription(one) for n, one in enumerate((old, *others))}
        bench.plan(leader="m0", **told)
        return bench.asked[-1].members[0].leaving

    assert leaving(new, newer) == Leaving(1, None, ("new", "newer"))
    assert leaving(new) is None
    assert leaving() is None
    assert leaving(new, goes_too) is None


def test_the_leader_names_the_tasks_that_no_member_gets():
    bench = Bench()
    bench.answer = Plan({}, unassigned=frozenset({T02}), deferral_deadline_ms=9_000)
    answers = bench.plan(a=bench.say(), b=Bench(member=1).say())
    assert [answers[name].unassigned for name in "ab"] == [{T02}, frozenset()]


# -- subtopologies with other numbers -----------------------------------------------------------

OLD = (("topic a",), ("topic b",))
NEW = (("topic new",), ("topic a",), ("topic b",))


def test_a_newcomer_with_other_numbers_is_refused_and_the_others_go_on():
    """The same task name is another task to it: with a plan for both a task had two owners."""
    leader, newcomer = Bench(belongings=OLD), Bench(belongings=NEW)
    leader.answer = Plan({"a": MemberPlan(), "b": MemberPlan(active=frozenset({T00, T10}))})
    mine = leader.say({T00: ACTIVE, T10: ACTIVE})
    answers = leader.plan(a=mine, b=newcomer.say())
    assert not leader.asked, "nothing is planned while it is here"
    assert answers["a"].active == {T00, T10}
    assert (answers["b"].error, answers["b"].active) == (AssignmentError.MOVED, frozenset())
    with pytest.raises(RefusedError, match="topic a belongs to subtopology 1 here and to 0 there"):
        newcomer.protocol.decode(wire.encode_assignment(answers["b"]))


def test_a_leader_that_runs_nothing_yields_to_members_with_other_numbers_that_do():
    """A leader died, and of the rest the newcomer leads: the tasks that run are not its to plan."""
    leader, old = Bench(belongings=NEW), Bench(belongings=OLD)
    answers = leader.plan(a=leader.say(), b=old.say({T00: ACTIVE}), c=Bench(belongings=OLD).say())
    assert not leader.asked
    assert answers["a"].error == AssignmentError.MOVED
    assert answers["b"].active == {T00}
    assert answers["c"] == attrs.evolve(answers["c"], error=0, active=frozenset())
    with pytest.raises(RefusedError, match="topic a belongs to subtopology 1 here and to 0 there"):
        leader.protocol.decode(wire.encode_assignment(answers["a"]))


def test_an_answer_to_a_refused_process_is_not_taken_by_its_successor():
    """A coordinator hands it out again to a static member; the program may be the right one now."""
    leader, refused = Bench(belongings=OLD), Bench(belongings=NEW)
    answers = leader.plan(a=leader.say({T00: ACTIVE}), b=refused.say(nonce=3))
    successor = Bench(belongings=OLD)
    successor.say(nonce=4)
    assert successor.protocol.decode(wire.encode_assignment(answers["b"])) == Assignment()
    assert successor.rejoins


def test_members_that_agree_on_what_both_have_are_planned_for():
    leader, newcomer = Bench(belongings=OLD), Bench(belongings=(*OLD, ("topic new",)))
    leader.plan(a=leader.say(), b=newcomer.say(), c=Bench().say())
    assert len(leader.asked) == 1


# -- descriptions that cannot be read ----------------------------------------------------------


def too_new(version=wire.VERSION + 1):
    return version.to_bytes(4, "big") + version.to_bytes(4, "big") + b"who knows"


@pytest.mark.parametrize(
    ("unreadable", "error"),
    [
        (too_new(), AssignmentError.TOO_NEW),
        (b"not ours", AssignmentError.UNREADABLE),
        (b"\x00\x00\x00\x01\x00\x00\x00\x01not ours", AssignmentError.UNREADABLE),
    ],
)
def test_while_somebody_cannot_be_read_everybody_keeps_what_it_claims(unreadable, error):
    """It may hold any task: giving a task away now could make two members run it."""
    bench = Bench()
    mine = bench.say({T00: ACTIVE, T10: Copy(Role.STANDBY)})
    answers = bench.plan(a=mine, b=unreadable)
    assert not bench.asked
    assert answers["a"].active == {T00}
    assert answers["b"].error == error


def test_of_two_claims_the_newest_is_kept_and_a_pending_one_only_where_there_is_no_other():
    bench = Bench()
    mine = bench.say({T00: Copy(Role.ACTIVE, 3), T01: Copy(Role.PENDING, 3), T02: ACTIVE})
    other = Bench().say({T00: Copy(Role.ACTIVE, 4), T02: Copy(Role.PENDING, 4)})
    answers = bench.plan(a=mine, b=other, c=too_new())
    assert answers["a"].active == {T01, T02}
    assert answers["b"].active == {T00}


def test_a_member_too_new_for_its_leader_describes_itself_in_the_older_version():
    """A rolling upgrade begins with a follower; the leader's turn comes later."""
    newcomer, leader = Bench(), Bench(latest=1)
    first = newcomer.say()
    assert wire.read_head(first) == wire.WireHeader(wire.VERSION, wire.VERSION)
    answers = leader.protocol.assign(
        RunAssignor(5, (JoinedMember("a", None, leader.say()), JoinedMember("b", None, first)))
    )
    assert newcomer.protocol.decode(answers["b"]) == Assignment()
    assert newcomer.rejoins == ["the leader knows version 1 at most"]
    assert wire.read_head(newcomer.say()) == wire.WireHeader(1, wire.VERSION)


def test_a_newer_leader_answers_each_member_in_a_version_it_reads():
    leader, old = Bench(), Bench(latest=1)
    leader.answer = Plan({"b": MemberPlan(active=frozenset({T01}))})
    members = (JoinedMember("a", None, leader.say()), JoinedMember("b", None, old.say()))
    answers = leader.protocol.assign(RunAssignor(5, members, 0, "a"))
    assert [wire.read_head(answers[name]).version for name in "ab"] == [wire.VERSION, 1]
    assert old.protocol.decode(answers["b"]).active == {T01}


def test_a_static_member_that_restarts_as_an_older_program_asks_anew():
    """Its cached assignment is in a version that it cannot read."""
    old = Bench(latest=1)
    old.say(nonce=7)
    cached = wire.encode_assignment(Assignment(active=frozenset({T00}), answers_nonce=6))
    assert old.protocol.decode(cached) == Assignment()
    assert old.rejoins == [
        f"restarted as an older program: version {wire.VERSION} is above ours, 1"
    ]


def test_what_a_program_is_looks_the_same_to_programs_of_all_versions():
    said = Bench().said()
    old = wire.decode_subscription(wire.encode_subscription(said, 1))
    assert wire.same_program(wire.identity_of(said), wire.identity_of(old))


def test_a_description_nobody_can_read_ends_the_membership():
    bench = Bench()
    data = wire.encode_assignment(Assignment(error=AssignmentError.UNREADABLE))
    with pytest.raises(FatalGroupError, match="another program"):
        bench.protocol.decode(data)


# -- static restarts ---------------------------------------------------------------------------


def cached(bench, **orders):
    """What the predecessor of a restarted static member was told."""
    identity = wire.identity_of(wire.decode_subscription(bench.say(nonce=100)))
    answer = Assignment(answers_nonce=99, answers_identity=identity, **orders)
    return bench.protocol.decode(wire.encode_assignment(answer)), answer, bench.rejoins


def test_a_restarted_static_member_goes_on_with_its_predecessors_tasks():
    """Same tasks, no rebalance, state on disk is used again."""
    received, answer, rejoins = cached(Bench(), active=frozenset({T00}))
    assert (received, rejoins) == (answer, [])


@pytest.mark.parametrize(
    "order",
    [
        {"revoke": frozenset({T01})},
        {"release": {T01: "b"}},
        {"pending": {T01: "b"}},
        {"leave": True},
    ],
)
def test_a_restart_in_the_middle_of_a_hand_over_does_not_carry_it_out_again(order):
    """V10: the predecessor's mark may be read already; we would run the task as well."""
    received, answer, rejoins = cached(Bench(), active=frozenset({T00}), **order)
    plain = attrs.evolve(answer, revoke=frozenset(), release={}, pending={}, leave=False)
    assert (received, rejoins) == (plain, ["restarted in the middle of a hand-over"])


def test_a_restart_with_another_topology_runs_nothing_before_a_rebalance():
    """The tasks of the cached assignment are those of the old program."""
    old = Bench((b"sub-0-v0", b"sub-1-v0"))
    identity = wire.identity_of(wire.decode_subscription(old.say(nonce=99)))
    new = Bench()
    new.say(nonce=100)
    answer = Assignment(active=frozenset({T00}), answers_nonce=99, answers_identity=identity)
    assert new.protocol.decode(wire.encode_assignment(answer)) == Assignment()
    assert new.rejoins == ["restarted with another topology or another state folder"]


@pytest.mark.parametrize(
    "changed",
    [{"capacity": 2.0}, {"tags": {"zone": "b"}}, {"imbalance": 0.0}, {"instance_members": 2}],
)
def test_a_restart_with_other_settings_runs_on_and_has_everybody_plan_again(changed):
    """The coordinator hands the old assignment back and tells nobody of the new settings."""
    identity = wire.identity_of(Bench(imbalance=0.2).said(nonce=99))
    new = Bench(**{"imbalance": 0.2, **changed})
    new.say(nonce=100)
    answer = Assignment(active=frozenset({T00}), answers_nonce=99, answers_identity=identity)
    assert new.protocol.decode(wire.encode_assignment(answer)) == answer
    assert new.rejoins == ["restarted with other settings"]


def test_a_restart_on_an_empty_disk_runs_nothing_before_a_rebalance():
    """Somebody else may have a warm copy of what its predecessor ran."""
    identity = wire.identity_of(attrs.evolve(Bench().said(nonce=99), instance="lost with its disk"))
    new = Bench()
    new.say(nonce=100)
    answer = Assignment(active=frozenset({T00}), answers_nonce=99, answers_identity=identity)
    assert new.protocol.decode(wire.encode_assignment(answer)) == Assignment()


def test_a_new_process_with_the_same_settings_is_the_same_to_the_group():
    identity = wire.identity_of(Bench(imbalance=0.2, started_ms=1).said(nonce=99))
    assert identity == wire.identity_of(Bench(imbalance=0.2, started_ms=2).said(nonce=100))


def test_the_band_is_that_of_the_process_that_started_last_whoever_leads():
    """One instance is restarted with another one, and leads or not."""
    leader = Bench(imbalance=0.2, started_ms=10)
    newest = Bench(member=1, imbalance=0.5, started_ms=30).say()
    silent = Bench(member=2, started_ms=99).say()
    leader.plan(a=leader.say(), b=newest, c=silent)
    leader.plan(a=leader.say(), c=silent)
    assert [group.rules.imbalance for group in leader.asked] == [0.5, 0.2]


def test_an_answer_to_our_own_words_is_not_taken_for_a_cached_one():
    bench = Bench()
    said = wire.decode_subscription(bench.say(nonce=3))
    answer = Assignment(
        revoke=frozenset({T00}), answers_nonce=3, answers_identity=wire.identity_of(said)
    )
    assert bench.protocol.decode(wire.encode_assignment(answer)) == answer
    assert bench.protocol.decode(b"") == Assignment()
    assert not bench.rejoins


# -- what a member does ------------------------------------------------------------------------


def test_only_tasks_that_move_are_touched():
    """Of four tasks one stays, one goes in two rounds, one comes, one was taken from us."""
    assignment = Assignment(active=frozenset({T00, T10}), revoke=frozenset({T01}))
    orders = TaskChanges.of({T00, T01, T02}, assignment)
    assert orders == TaskChanges(start=(T10,), keep=(T00,), stop=(T01,), lose=(T02,), rejoin=True)


def test_an_order_to_release_keeps_the_task_running_until_it_is_carried_out():
    orders = TaskChanges.of({T00}, Assignment(release={T00: "b"}))
    assert orders == TaskChanges((), (T00,), (), (), rejoin=False)


def test_a_revoked_task_we_do_not_run_still_makes_us_rejoin():
    """It was never started: the leader learns from our next words that nobody runs it."""
    assert TaskChanges.of((), Assignment(revoke=frozenset({T00}))) == TaskChanges(
        (), (), (), (), rejoin=True
    )


# -- settings ----------------------------------------------------------------------------------


def test_settings_reach_the_rules_and_the_machine():
    settings = Settings(
        num_standby_replicas=2,
        stream_imbalance_percentage=0.1,
        group_instance_id="host",
        rebalance_timeout_ms=8_000,
        commit_interval_ms=200,
    )
    rules = rules_from(settings, learners=False)
    assert (rules.standbys, rules.imbalance, rules.learners) == (2, 0.1, False)
    config = MembershipConfig.from_settings("app", settings, member=3, first_nonce=5)
    assert (config.group, config.instance_id, config.first_nonce) == ("app", "host-3", 5)
    assert config.parked_commit_after_ms == 500
    waiting = MembershipConfig.from_settings("app", settings, waits=True)
    assert waiting.parked_commit_after_ms == settings.repartition_commit_interval_ms // 4
    assert config.commit_timeout_ms + config.hold_timeout_ms < 8_000


def test_exactly_once_keeps_the_gate_shut_and_no_static_id_is_none():
    settings = Settings(processing_guarantee="exactly_once")
    config = MembershipConfig.from_settings("app", settings)
    assert config.parked_commit_after_ms is None
    assert config.instance_id is None


# -- groups of type "consumer" -----------------------------------------------------------------


def test_an_eager_member_says_what_it_gave_up_at_v0_and_is_answered_at_v0():
    bench = Bench(mode="eager", learners=False)
    assert bench.protocol.protocol_type == "consumer"
    data = bench.say({T00: Copy(Role.RELEASED)})
    opened = open_subscription(data, "consumer")
    assert (opened.version, opened.eager) == (0, True)
    said = wire.decode_subscription(opened.data)
    assert (said.copies, said.wants_type) == ({T00: Copy(Role.RELEASED)}, "consumer")
    bench.answer = Plan({"a": MemberPlan(active=frozenset({T00}))})
    answers = bench.protocol.assign(RunAssignor(5, (JoinedMember("a", None, data),), 0, "a"))
    assert answers["a"][:2] == b"\0\0"
    assert bench.protocol.decode(answers["a"]).active == {T00}


def test_a_leader_plans_as_eager_as_its_members_are():
    bench = Bench(mode="eager")
    bench.protocol.assign(RunAssignor(5, (JoinedMember("a", None, bench.say()),), 0, "a"))
    assert bench.asked[-1].rules.mode == "eager"


def test_what_is_no_subscription_of_a_consumer_is_answered_as_unreadable():
    bench = Bench(mode="eager")
    members = (JoinedMember("a", None, bench.say()), JoinedMember("b", None, b"\xff"))
    answers = bench.protocol.assign(RunAssignor(5, members, 0, "a"))
    with pytest.raises(FatalGroupError, match="another program"):
        bench.protocol.decode(answers["b"])
