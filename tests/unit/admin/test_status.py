"""The status document, and the last round put together again, from members' own bytes."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from streamlet.admin.current import CurrentGroup, loads
from streamlet.admin.snapshot import (
    GroupSnapshot,
    last_round,
    read,
    tasks,
    unassigned_for_good,
)
from streamlet.admin.status import document
from streamlet.assignor.validate import validate
from streamlet.assignor.values import Copy, Leaving, MemberPlan, Role, Rules, TaskInfo
from streamlet.control.values import Mark, MemberProgress, TaskProgress
from streamlet.control.view import ControlView
from streamlet.coordinator.messages import GroupDescription, MemberDescription
from streamlet.rebalance.envelope import Envelope, FixedTopics
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.rebalance.wire import encode_assignment, encode_subscription
from streamlet.types import TaskId, TopicPartition


def task(text: str) -> TaskId:
    return TaskId.parse(text)


def ids(text: str) -> frozenset[TaskId]:
    return frozenset(map(task, text.split()))


def member(
    name: str,
    number: int = 0,
    copies: dict[str, Copy] | None = None,
    said: dict[str, Any] | None = None,
    eager: bool | None = None,
    **told: Any,
) -> MemberDescription:
    """A member ``h1-0`` with member id ``id-h1-0`` of instance ``process-h1``.

    ``eager``: how it joins a group of type "consumer".
    """
    subscription = Subscription(
        f"process-{name}",
        name,
        number,
        2.0,
        1,
        copies={task(text): copy for text, copy in (copies or {}).items()},
        stateful=frozenset({0}),
        **{"subtopologies": (), **(said or {})},
    )
    assignment = Assignment(**_signature(name), **told)
    metadata, assigned = encode_subscription(subscription), encode_assignment(assignment)
    if eager is not None:
        around = Envelope(FixedTopics({0: ("flights",)}))
        metadata = around.subscription(subscription, metadata, eager=eager, generation=3)
        assigned = around.assignment(assignment, assigned, 0 if eager else 3)
    return MemberDescription(
        f"id-{name}-{number}",
        subscription.instance_id,
        f"client-{name}",
        "localhost",
        metadata,
        assigned,
    )


def _signature(name: str) -> dict[str, Any]:
    """What only the leader, which is h1, writes into its own assignment."""
    if name != "h1":
        return {}
    return {"leader": "id-h1-0", "generation": 12, "made_ms": 5_000, "reason": "joined"}


def group(
    *members: MemberDescription, state: str = "Stable", kind: str = "stream"
) -> GroupSnapshot:
    return read(GroupDescription("flights", state, kind, "streamlet", members))


def test_a_stable_group_is_shown_in_the_shape_that_is_promised() -> None:
    live = group(
        member("h1", said={"tags": {"zone": "a"}, "instance_id": "h1-0"}, active=ids("0_0 1_0"))
    )
    lag = {TopicPartition("flights", 1): 0, TopicPartition("flights", 0): 12}
    assert document(live, lag) == {
        "application": "flights",
        "group": {
            "state": "Stable",
            "protocol_type": "stream",
            "mode": "incremental",
            "generation": 12,
            "leader": "h1-0",
            "last_rebalance": {"at_ms": 5_000, "reason": "joined"},
        },
        "instances": [
            {
                "name": "h1",
                "process_id": "process-h1",
                "capacity": 2.0,
                "tags": {"zone": "a"},
                "leaving": None,
                "members": [
                    {
                        "member": "h1-0",
                        "member_id": "id-h1-0",
                        "instance_id": "h1-0",
                        "disk_fails": False,
                        "state": "RUNNING",
                        "tasks": [shown("0_0"), shown("1_0", isStateful=False)],
                        "global_tables": None,
                        "memory": None,
                        "latency_ms": None,
                    }
                ],
            }
        ],
        "handovers": [],
        "unassigned": [],
        "input_lag": {"flights": {"0": 12, "1": 0}},
        "unread": {},
        "repartitions": [],
        "shutdown": None,
        "paused": [],
        "violations": [],
    }


def shown(text: str, **differs: Any) -> dict[str, Any]:
    """A task of the document, a stateful active one unless said otherwise."""
    plain = {"role": "active", "isStateful": True, "isLearner": False}
    rest = {"beingLearned": False, "isReady": None, "lag": 0, "problem": None}
    rest |= {"misplaced": None, "paused": False, "late": None, "dropped": None}
    rest["waits_for"] = None
    return {"task": text, **plain, **rest, **differs}


def tasks_of(live: GroupSnapshot) -> dict[str, list[dict[str, Any]]]:
    instances = document(live, {})["instances"]
    return {m["member"]: m["tasks"] for instance in instances for m in instance["members"]}


def test_a_learner_shows_on_both_sides_and_as_a_hand_over() -> None:
    learning = {"0_0": Copy(Role.LEARNER, lag=700), "0_1": Copy(Role.LEARNER, lag=3, ready=True)}
    live = group(
        member("h1", active=ids("0_0 0_1")), member("h2", copies=learning, learner=ids("0_0 0_1"))
    )
    assert tasks_of(live) == {
        "h1-0": [shown("0_0", beingLearned=True), shown("0_1", beingLearned=True)],
        "h2-0": [
            shown("0_0", role="learner", isLearner=True, isReady=False, lag=700),
            shown("0_1", role="learner", isLearner=True, isReady=True, lag=3),
        ],
    }
    handovers = document(live, {})["handovers"]
    assert [(h["task"], h["from"], h["to"], h["stage"]) for h in handovers] == [
        ("0_0", "h1-0", "h2-0", "learning"),
        ("0_1", "h1-0", "h2-0", "ready"),
    ]


def test_an_ordered_hand_over_is_active_here_and_pending_there() -> None:
    live = group(
        member("h1", release={task("0_0"): "id-h2-0"}),
        member("h2", pending={task("0_0"): "id-h1-0"}),
    )
    roles = {name: [(t["task"], t["role"]) for t in own] for name, own in tasks_of(live).items()}
    assert roles == {"h1-0": [("0_0", "active")], "h2-0": [("0_0", "pending")]}
    [handover] = document(live, {})["handovers"]
    assert (handover["from"], handover["to"], handover["stage"]) == ("h1-0", "h2-0", "ordered")


def word(name: str, *said: TaskProgress, generation: int = 12, state: str = "RUNNING") -> Any:
    """What member ``h1-0`` says of itself."""
    return MemberProgress(
        f"process-{name}", 0, f"{name}-0", f"id-{name}-0", 1, state, generation, tasks=said
    )


def control(*words: MemberProgress, marks: tuple[Mark, ...] = ()) -> ControlView:
    return ControlView({m.instance: m for m in marks}, {one.key: one for one in words})


def stages(live: GroupSnapshot, view: ControlView) -> list[tuple[str, str, str]]:
    found = document(live, {}, control=view)["handovers"]
    return [(one["task"], one["to"], one["stage"]) for one in found]


def roles_of(live: GroupSnapshot, view: ControlView) -> dict[str, list[tuple[str, str]]]:
    instances = document(live, {}, control=view)["instances"]
    return {
        m["member"]: [(t["task"], t["role"]) for t in m["tasks"]]
        for instance in instances
        for m in instance["members"]
    }


ORDERED = (
    member("h1", release={task("0_0"): "id-h2-0"}),
    member("h2", pending={task("0_0"): "id-h1-0"}),
)
RUNS = TaskProgress("0_0", "active", "running", generation=12)
STOPPED = TaskProgress("0_0", "active", "stopped", generation=12)
RELEASED = TaskProgress("0_0", "released", "released")
WAITS = TaskProgress("0_0", "pending", "waiting", 0, 90, 90, 5.0, 0.0, 12)


@pytest.mark.parametrize(
    ("owner", "target", "stage", "roles"),
    [
        (RUNS, WAITS, "ordered", ("active", "pending")),
        (STOPPED, WAITS, "ordered", ("active", "pending")),
        (RELEASED, WAITS, "released", ("released", "pending")),
        (RELEASED, attrs.evolve(RUNS, stage="restoring"), "active", ("released", "active")),
        (RUNS, attrs.evolve(RUNS, stage="restoring"), "active", ("active", "active")),
    ],
)
def test_an_ordered_hand_over_goes_on_as_its_members_say(
    owner: TaskProgress, target: TaskProgress, stage: str, roles: tuple[str, str]
) -> None:
    view = control(word("h1", owner), word("h2", target))
    assert stages(group(*ORDERED), view) == [("0_0", "h2-0", stage)]
    found = roles_of(group(*ORDERED), view)
    assert found == {"h1-0": [("0_0", roles[0])], "h2-0": [("0_0", roles[1])]}


def test_one_that_has_arrived_is_over_before_the_next_rebalance() -> None:
    view = control(word("h1", RELEASED), word("h2", RUNS))
    assert stages(group(*ORDERED), view) == []
    assert roles_of(group(*ORDERED), view)["h2-0"] == [("0_0", "active")]


def test_what_was_said_before_the_last_assignment_says_nothing_of_its_orders() -> None:
    view = control(word("h1", RELEASED, generation=11), word("h2", RUNS, generation=11))
    assert stages(group(*ORDERED), view) == [("0_0", "h2-0", "ordered")]
    assert stages(group(ORDERED[1], member("h1")), control()) == [("0_0", "h2-0", "ordered")]
    assert stages(group(ORDERED[1]), control()) == [("0_0", "h2-0", "released")]  # owner is gone


def test_a_learner_tells_how_far_it_is_between_rebalances() -> None:
    live = group(
        member("h1", active=ids("0_0")),
        member("h2", copies={"0_0": Copy(Role.LEARNER, lag=9_000)}, learner=ids("0_0")),
    )
    learning = TaskProgress("0_0", "learner", "learning", 700, 300, 1_000, 100.0, 7.0)
    view = control(word("h2", learning, generation=11))  # how far it is holds in any generation
    [found] = document(live, {}, control=view)["handovers"]
    assert found == {
        "task": "0_0",
        "from": "h1-0",
        "to": "h2-0",
        "stage": "learning",
        "restored": 300,
        "end": 1_000,
        "rate": 100.0,
        "eta_s": 7.0,
    }
    ready = control(word("h2", attrs.evolve(learning, stage="ready", lag=3)))
    assert stages(live, ready) == [("0_0", "h2-0", "ready")]
    [shown] = document(live, {}, control=ready)["instances"][1]["members"][0]["tasks"]
    assert (shown["isReady"], shown["lag"]) == (True, 3)


def test_an_active_task_that_is_being_restored_shows_what_is_left() -> None:
    restoring = TaskProgress("0_0", "active", "restoring", None, 40, 100, 1.0, 60.0, 12)
    live = group(member("h1", active=ids("0_0")))
    view = control(word("h1", restoring, state="REBALANCING"))
    [shown] = document(live, {}, control=view)["instances"][0]["members"]
    assert shown["state"] == "REBALANCING"
    assert shown["tasks"][0]["lag"] == 60


def test_a_mark_shows_before_its_instance_has_rejoined_with_it() -> None:
    live = group(member("h1"), member("h2"))
    found = document(live, {}, control=control(marks=(Mark("process-h2", 7),)))["instances"]
    assert [one["leaving"] for one in found] == [
        None,
        {"since_ms": 7, "deadline_ms": None, "waits_for": []},
    ]
    assert [
        one.leaving for one in loads(CurrentGroup(live, control(marks=(Mark("process-h2", 7),))))
    ] == [False, True]


def test_an_instance_is_as_busy_as_its_members_say_if_all_do() -> None:
    live = group(member("h1"), member("h2"))
    busy = attrs.evolve(word("h1"), busy=0.5)
    assert [one.busy for one in loads(CurrentGroup(live, control(busy, word("h2"))))] == [0.5, None]


def test_members_that_both_say_they_run_a_task_violate_u1() -> None:
    live = group(*ORDERED)
    [found] = CurrentGroup(live, control(word("h1", RUNS), word("h2", RUNS))).violations()
    assert (found.rule, found.tasks) == ("U1", (task("0_0"),))
    assert found.members == ("id-h1-0", "id-h2-0")
    assert CurrentGroup(live, control(word("h1", RELEASED), word("h2", RUNS))).violations() == []
    old = control(word("h1", RUNS, generation=11), word("h2", RUNS))
    assert CurrentGroup(live, old).violations() == []


def test_a_copy_that_nobody_ordered_violates_u13() -> None:
    left_over = TaskProgress("0_7", "learner", "learning")
    live = group(member("h1", standby=ids("0_1")))
    said = control(word("h1", left_over, TaskProgress("0_1", "standby", "ready")))
    [found] = CurrentGroup(live, said).violations()
    assert (found.rule, found.tasks) == ("U13", (task("0_7"),))


def test_a_task_that_stands_still_is_shown_and_violates_t1() -> None:
    live = group(*ORDERED)
    halted = attrs.evolve(RUNS, problem="no space left")
    present = CurrentGroup(live, control(word("h1", halted)))
    [found] = present.violations()
    assert (found.rule, found.tasks) == ("T1", (task("0_0"),))
    assert "no space left" in found.text
    tasks = document(live, {}, control=present.control)["instances"][0]["members"][0]["tasks"]
    assert tasks[0]["problem"] == "no space left"


def test_keys_that_lie_elsewhere_are_shown_and_violate_t2() -> None:
    live = group(*ORDERED)
    elsewhere = attrs.evolve(RUNS, misplaced="rows: 15 of 20 records")
    present = CurrentGroup(live, control(word("h1", elsewhere)))
    [found] = present.violations()
    assert (found.rule, found.tasks, found.text) == ("T2", (task("0_0"),), "rows: 15 of 20 records")
    tasks = document(live, {}, control=present.control)["instances"][0]["members"][0]["tasks"]
    assert tasks[0]["misplaced"] == "rows: 15 of 20 records"


def test_members_of_an_instance_stand_together_and_a_leaving_one_says_so() -> None:
    leaving = {"leaving": Leaving(7, 9)}
    live = group(member("h2", 1, said=leaving), member("h1"), member("h2", 0, said=leaving))
    found = [
        (i["name"], i["leaving"], [(m["member"], m["state"]) for m in i["members"]])
        for i in document(live, {})["instances"]
    ]
    mark = {"since_ms": 7, "deadline_ms": 9, "waits_for": []}
    assert found == [
        ("h1", None, [("h1-0", "RUNNING")]),
        ("h2", mark, [("h2-0", "PENDING_SHUTDOWN"), ("h2-1", "PENDING_SHUTDOWN")]),
    ]


def test_a_group_that_rebalances_has_nothing_to_read() -> None:
    silent = attrs.evolve(member("h1"), metadata=b"", assignment=b"")
    live = group(silent, state="PreparingRebalance")
    assert live.ours
    assert not live.stable
    found = document(live, {})
    assert found["group"]["generation"] is None
    [instance] = found["instances"]
    assert instance["name"] == "client-h1"
    assert instance["members"][0]["member"] == "id-h1-0"
    assert instance["members"][0]["state"] == "REBALANCING"


def test_members_have_the_names_they_reported_while_a_rebalance_hides_their_own() -> None:
    silent = [attrs.evolve(member(n), metadata=b"", assignment=b"") for n in ("h2", "h1", "h3")]
    live = group(*silent, state="PreparingRebalance")
    view = control(word("h2"), word("h1"), marks=(Mark("process-h2", 7),))
    found = document(live, {}, control=view)
    shown = [(i["name"], i["process_id"], i["members"][0]["member"]) for i in found["instances"]]
    assert shown == [
        ("client-h3", "", "id-h3-0"),  # it has reported nothing yet
        ("h1", "process-h1", "h1-0"),
        ("h2", "process-h2", "h2-0"),
    ]
    mark = {"since_ms": 7, "deadline_ms": None, "waits_for": []}
    assert found["instances"][2]["leaving"] == mark
    assert found["group"]["mode"] == "incremental"
    assert found["unassigned"] == []


def test_a_hand_over_from_a_member_that_is_gone_has_its_name() -> None:
    view = control(word("h1"))
    [found] = document(group(ORDERED[1]), {}, control=view)["handovers"]
    assert (found["from"], found["stage"]) == ("h1-0", "released")


def test_an_empty_group_has_no_mode_and_no_instances() -> None:
    found = document(group(state="Empty"), {})
    assert found["group"]["mode"] is None
    assert found["instances"] == []


def test_in_a_group_that_every_tool_reads_the_slowest_member_makes_the_mode() -> None:
    new = member("h1", eager=False, active=ids("0_1"))
    live = group(new, kind="consumer")
    assert document(live, {})["group"]["mode"] == "upgrading"
    assert live.members[0].assigned.active == ids("0_1")
    mixed = group(new, member("h2", eager=True), kind="consumer")
    assert document(mixed, {})["group"]["mode"] == "eager"
    assert last_round(mixed, Rules(), now_ms=0)[0].rules.mode == "eager"


def test_bytes_of_others_are_left_out() -> None:
    foreign = attrs.evolve(member("h1"), metadata=b"\0\0", assignment=b"\xff" * 40)
    assert not group(foreign).ours
    mixed = group(foreign, member("h2"))
    assert mixed.ours
    assert [m.name for m in mixed.members] == ["id-h1-0", "h2-0"]


def test_a_task_missing_between_others_is_one_there_must_be() -> None:
    live = group(member("h1", active=ids("0_0 0_2 1_1")))
    assert tasks(live) == tuple(
        TaskInfo(task(text), text[0] == "0") for text in ("0_0", "0_1", "0_2", "1_0", "1_1")
    )


def test_the_last_round_is_what_the_leader_was_given_and_answered() -> None:
    copies = {"0_0": Copy(Role.ACTIVE, generation=11), "0_1": Copy(Role.LEARNER, lag=3)}
    live = group(
        member("h1", copies=copies, active=ids("0_0"), learner=ids("0_1"), leave=True),
        member("h2", revoke=ids("1_0"), standby=ids("0_0")),
    )
    state, plan = last_round(live, Rules(standbys=1), now_ms=99)
    assert (state.generation, state.rules.standbys, state.rules.learners) == (12, 1, True)
    assert state.members[0].copies == {task(text): copy for text, copy in copies.items()}
    assert [m.sort_key for m in state.members] == ["id-h1-0", "id-h2-0"]
    names = [field.name for field in attrs.fields(MemberPlan)]
    parts = plan.members.items()
    assert {m: MemberPlan(**{n: getattr(part, n) for n in names}) for m, part in parts} == {
        "id-h1-0": MemberPlan(active=ids("0_0"), learner=ids("0_1"), leave=True),
        "id-h2-0": MemberPlan(revoke=ids("1_0"), standby=ids("0_0")),
    }


def test_the_last_round_is_checked_as_of_the_time_it_was_made() -> None:
    state, _ = last_round(group(member("h1"), member("h2")), Rules(), now_ms=99)
    assert state.now_ms == 5_000
    quiet = encode_assignment(Assignment())
    silent = group(attrs.evolve(member("h1"), assignment=quiet))
    assert last_round(silent, Rules(), now_ms=99)[0].now_ms == 99


def test_a_sound_round_violates_nothing_and_a_hole_violates_u1() -> None:
    sound = group(member("h1", active=ids("0_0 1_0")), member("h2", active=ids("0_1")))
    assert validate(*last_round(sound, Rules(), 0)) == []
    hole = group(member("h1", active=ids("0_0")), member("h2", active=ids("0_2")))
    [violation] = validate(*last_round(hole, Rules(), 0))
    assert (violation.rule, violation.tasks) == ("U1", (task("0_1"),))
    twice = group(member("h1", active=ids("0_0")), member("h2", active=ids("0_0")))
    assert "U1" in {found.rule for found in validate(*last_round(twice, Rules(), 0))}


def test_a_task_that_waits_for_a_lost_member_is_no_violation() -> None:
    waits = group(
        member("h1", active=ids("0_0 0_2"), deferral_deadline_ms=9), member("h2", active=ids("1_0"))
    )
    assert validate(*last_round(waits, Rules(), 0)) == []


def test_tasks_without_a_member_stand_in_the_document_with_what_they_wait_for() -> None:
    """The leader names them all: of the last ones no member knows anything."""
    signed = {"unassigned": ids("0_2 0_3")}
    waits = group(member("h1", active=ids("0_0 0_1"), deferral_deadline_ms=9, **signed))
    assert document(waits, {})["unassigned"] == [
        {"task": "0_2", "until_ms": 9},
        {"task": "0_3", "until_ms": 9},
    ]
    assert validate(*last_round(waits, Rules(), 0)) == []
    assert unassigned_for_good(waits, []) == []
    alone = group(member("h1", active=ids("0_0 0_1"), **signed))
    assert document(alone, {})["unassigned"][0] == {"task": "0_2", "until_ms": None}
    found = validate(*last_round(alone, Rules(), 0))
    assert [violation.tasks for violation in found] == [(task("0_2"),), (task("0_3"),)]
    assert unassigned_for_good(alone, found) == []  # one word is enough


def test_a_task_that_no_member_can_run_violates_u1_though_a_plan_may_leave_it_out() -> None:
    """The leader goes, and nobody else has its topology; others wait for a lost member."""
    leader = member(
        "h1",
        said={"subtopologies": (b"a" * 8, b"b" * 8), "leaving": Leaving(1)},
        unassigned=ids("0_1 1_0"),
        deferral_deadline_ms=9,
    )
    other = member("h2", said={"subtopologies": (b"a" * 8, b"c" * 8)}, active=ids("0_0"))
    live = group(leader, other)
    assert document(live, {})["unassigned"] == [
        {"task": "0_1", "until_ms": 9},
        {"task": "1_0", "until_ms": None},
    ]
    assert validate(*last_round(live, Rules(), 0)) == []
    [violation] = unassigned_for_good(live, [])
    assert (violation.rule, violation.tasks) == ("U1", (task("1_0"),))


def test_an_instance_that_is_replaced_does_not_count_as_leaving_without_its_successor() -> None:
    leaving = {"leaving": Leaving(7, None, ("process-h2",))}
    old, new = member("h1", said=leaving), member("h2")
    assert [m.leaving for m in last_round(group(old, new), Rules(), 0)[0].members] == [
        Leaving(7, None, ("process-h2",)),
        None,
    ]
    assert [m.leaving for m in last_round(group(old), Rules(), 0)[0].members] == [None]
    assert waits_for(group(old, new)) == []
    assert waits_for(group(old)) == ["process-h2"]
    assert waits_for(group(old), control(word("h2"))) == ["h2"]
    early = control(word("h2"), marks=(Mark("process-h1", 7, successors=("process-h2",)),))
    assert waits_for(group(member("h1")), early) == ["h2"]


def waits_for(live: GroupSnapshot, view: ControlView | None = None) -> list[str]:
    return document(live, {}, control=view)["instances"][0]["leaving"]["waits_for"]  # type: ignore[no-any-return]


def test_a_member_of_another_topology_runs_only_what_is_the_same() -> None:
    leader = member("h1", said={"subtopologies": (b"a" * 8, b"b" * 8)})
    other = member("h2", said={"subtopologies": (b"a" * 8, b"c" * 8)}, active=ids("1_0"))
    live = group(leader, other)
    state, plan = last_round(live, Rules(), 0)
    assert [m.runs for m in state.members] == [None, frozenset({0})]
    assert "cannot run 1_0" in " ".join(found.text for found in validate(state, plan))


def test_the_bytes_of_all_members_count_together() -> None:
    one, two = member("h1"), member("h2")
    sizes = [len(data) for m in (one, two) for data in (m.metadata, m.assignment)]
    assert group(one, two).metadata_bytes == sum(sizes)


def test_a_leader_that_restarted_with_its_static_id_still_leads() -> None:
    """Its member id is another one than the last rebalance says."""
    restarted = attrs.evolve(member("h1", active=ids("0_0")), member_id="id-of-another-process")
    assert document(group(restarted, member("h2")), {})["group"]["leader"] == "h1-0"
