"""The input and the answer of the assignor; values only.

``GroupState`` is all that a leader knows in one generation: the tasks there are, and what each
member said of itself. ``Plan`` is who shall do what in this generation. Both are free of Kafka,
time and bytes.
"""

from __future__ import annotations

import enum

import attrs

from streamlet.types import TaskId


class Role(enum.StrEnum):
    """The role of a member's copy of a task (handed-over states included)."""

    ACTIVE = "active"
    LEARNER = "learner"
    STANDBY = "standby"
    DORMANT = "dormant"
    PENDING = "pending"
    RELEASED = "released"


#: Roles by which a task is with a member, or given up by it.
CLAIMS = frozenset({Role.ACTIVE, Role.PENDING, Role.RELEASED})


@attrs.frozen
class Copy:
    """One task as its holder describes it.

    ``generation`` is that of the assignment an ``active`` or ``pending`` claim comes from, -1
    otherwise. ``lag`` is in changelog records, None when unknown; ``ready`` says that it is
    acceptable.
    """

    role: Role
    generation: int = -1
    ready: bool = False
    lag: int | None = None


@attrs.frozen
class Leaving:
    """An instance is on its way out since, and at the latest until, these wall-clock ms.

    ``successors`` are instances that replace it: it counts as leaving only while all are there.
    """

    since_ms: int
    deadline_ms: int | None = None
    successors: tuple[str, ...] = ()


@attrs.frozen
class TaskInfo:
    """One task there is. ``weight`` is its share of load (1 unless said otherwise)."""

    task: TaskId
    stateful: bool
    weight: int = 1


@attrs.frozen
class MemberState:
    """One member as its subscription describes it.

    ``sort_key`` is the static id where there is one, else the member id; ``runs`` tells which
    subtopologies it can run (number and hash match the leader's). ``joined_generation`` -1: new in
    this generation.
    """

    member_id: str
    instance: str
    number: int
    capacity: float = 1.0  # of the whole instance
    instance_id: str | None = None
    runs: frozenset[int] | None = None  # None: all
    copies: dict[TaskId, Copy] = attrs.field(factory=dict)
    tags: dict[str, str] = attrs.field(factory=dict)
    leaving: Leaving | None = None
    learners: bool = True
    joined_generation: int = -1
    deferral_deadline_ms: int | None = None

    @property
    def sort_key(self) -> str:
        """The id that the member is sorted by: its static id if it has one, else its member id."""
        return self.member_id if self.instance_id is None else self.instance_id


@attrs.frozen
class Rules:
    """The settings that shape a plan; names as in the settings, defaults too."""

    standbys: int = 0
    learners: bool = True  # False: no member learns, stateful tasks move cold, in two rounds
    handover: str = "release"  # or "surrender"
    mode: str = "incremental"  # or "eager"
    imbalance: float = 0.2
    acceptable_lag: int = 10_000
    max_learners_member: int = 4
    max_learners_source: int = 8
    max_learners_group: int = 64
    max_moves: int = 0
    move_interval_ms: int = 0
    deferral_ms: int = 0
    initial_delay_ms: int = 0
    rack_tags: tuple[str, ...] = ()


@attrs.frozen
class GroupState:
    """The whole input of ``assign``. ``now_ms`` is wall-clock time, given by the caller."""

    tasks: tuple[TaskInfo, ...]
    members: tuple[MemberState, ...]
    generation: int
    now_ms: int
    rules: Rules = Rules()


@attrs.frozen
class MemberPlan:
    """One member's part of the plan; fields as in ``rebalance.values.Assignment``.

    ``active``, ``release``, ``revoke``, ``pending`` and ``learner`` have no task in common. A task
    that the member ran and finds in none of ``active``, ``release`` and ``revoke`` is dropped
    without a commit (another member owns it). ``revoke``: stop it, commit, declare it ``released``
    and rejoin; no other member gets it in this round. A task in both ``release`` and ``standby``:
    once released, its copy goes on as a standby. ``being_learned``: tasks of ``active`` that a
    member learns; under handover ``surrender`` the member stops and commits these before each
    JoinGroup and declares them ``released``. ``awaited``: tasks of ``standby`` that another standby
    is to make way for; the member rejoins when they have caught up.
    """

    active: frozenset[TaskId] = frozenset()
    learner: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    release: dict[TaskId, str] = attrs.field(factory=dict)
    pending: dict[TaskId, str] = attrs.field(factory=dict)
    revoke: frozenset[TaskId] = frozenset()
    leave: bool = False
    being_learned: frozenset[TaskId] = frozenset()
    awaited: frozenset[TaskId] = frozenset()


@attrs.frozen
class Plan:
    """The answer of ``assign``: the part of each member in one generation.

    ``follow_up_ms``: wall-clock time of the next rebalance the plan itself needs, None for none; 0
    means at once, and is brought about by the members with something to revoke, which rejoin as
    soon as they have given it up. ``out_of_band`` names instances whose load cannot be brought
    inside the band.
    """

    members: dict[str, MemberPlan]
    follow_up_ms: int | None = None
    deferral_deadline_ms: int | None = None
    unassigned: frozenset[TaskId] = frozenset()
    out_of_band: tuple[str, ...] = ()


@attrs.frozen
class Violation:
    """A rule a plan (or a live group) breaks: ``rule`` is U1…U13; T1: a task stands still."""

    rule: str
    text: str
    tasks: tuple[TaskId, ...] = ()
    members: tuple[str, ...] = ()
