"""The state of the model: named tuples all the way down, so that a state hashes fast as a key."""

from __future__ import annotations

from typing import Final, NamedTuple

from streamlet.types import NO_STATE, StateNumber

SLOTS: Final = range(3)
NAMES: Final = "ABC"

#: Phases of the group. The coordinator's own names.
EMPTY: Final = "empty"
PREPARING: Final = "preparing"
COMPLETING: Final = "completing"
STABLE: Final = "stable"

#: Where a member's JoinGroup is. ANSWERED: by the broker; the member may not know it yet.
IDLE: Final = ""
SENT: Final = "sent"
PARKED: Final = "parked"
ANSWERED: Final = "answered"

#: What a member does with the task. FETCHING: is to read the committed offset. FETCHED: is to
#: restore. STOPPED: gives it up, its last commit not yet answered. What the subscription says
#: (``Description.role``) is one of ACTIVE, RELEASED, PENDING, LEARNER, NONE.
NONE: Final = "none"
LEARNER: Final = "learner"
PENDING: Final = "pending"
FETCHING: Final = "fetching"
FETCHED: Final = "fetched"
ACTIVE: Final = "active"
STOPPED: Final = "stopped"
RELEASED: Final = "released"

#: Those that run the task, or are about to.
OWNING: Final = frozenset({FETCHING, FETCHED, ACTIVE})

#: How far a commit is. FLUSHED: the changelog has it. SENT (as above): the request travels.
#: REPLIED: the broker has decided, the answer travels. IN_TXN and DECIDED: exactly-once only.
FLUSHED: Final = "flushed"
REPLIED: Final = "replied"
IN_TXN: Final = "in transaction"
DECIDED: Final = "decided"

#: A JoinGroup waits for these, and nothing else is begun meanwhile.
IN_FLIGHT: Final = frozenset({SENT, REPLIED, IN_TXN, DECIDED})

#: Why a member wants a rebalance. POISONED: the outcome of a commit is unknown (M6).
REJOIN: Final = "rejoin"
POISONED: Final = "poisoned"


class Description(NamedTuple):
    """A member's description of the task in its JoinGroup (W3)."""

    role: str
    generation: int
    ready: bool


class Note(NamedTuple):
    """The text beside a committed offset (W1, W2). ``end`` is the changelog's, as an index."""

    epoch: int
    by: str
    generation: int
    state: StateNumber
    release_to: str | None = None
    end: int = 0


class Commit(NamedTuple):
    """A commit request: generation, offset, text."""

    generation: int
    offset: int
    note: Note


class Late(NamedTuple):
    """A commit request that its sender has given up and that may still arrive."""

    slot: int
    by: str
    commit: Commit


class Txn(NamedTuple):
    """A transaction whose offsets were accepted. ``stage`` tells which markers are written."""

    by: str
    stage: str  # "pending", "commit", "offsets done", "changelog done"
    offset: int
    note: Note


class Record(NamedTuple):
    """A changelog record: of which commit, and that it holds every input below ``covers``."""

    epoch: int
    number: int
    covers: int
    status: int = 0  # 0 committed, 1 aborted, 2 + i: in the open transaction of slot i


class Seat(NamedTuple):
    """A member as the coordinator knows it."""

    member: str
    joined: bool
    description: Description


class Plan(NamedTuple):
    """A leader's decision: KEEP (owner has it), HAND_OVER (owner to heir) or REVOKE."""

    kind: str
    owner: int
    heir: int
    heir_id: str
    generation: int


KEEP: Final = "keep"
HAND_OVER: Final = "hand over"
REVOKE: Final = "revoke"


class Order(NamedTuple):
    """The order that a member holds (W4): ``kind`` is HAND_OVER or REVOKE, or PENDING."""

    kind: str
    other: int
    other_id: str
    generation: int


class Broker(NamedTuple):
    """The coordinator, the committed offset, the changelog, and what is on its way to them."""

    generation: int
    phase: str
    leader: int
    seats: tuple[Seat | None, ...]
    plan: Plan | None
    offset: int
    note: Note
    log: tuple[Record, ...] = ()
    late: tuple[Late, ...] = ()
    txns: tuple[Txn | None, ...] = (None, None, None)


class Member(NamedTuple):
    """One process. ``member`` is its id in the group, "" for none; ids are never used twice."""

    alive: bool = False
    member: str = ""
    births: int = 1
    joining: str = IDLE
    join_generation: int = 0  # of the JoinGroup answer
    generation: int = 0  # of the last assignment applied
    description: Description | None = None  # in the JoinGroup that is sent
    fresh: bool = False  # that JoinGroup asks for a new id
    want: str = ""
    role: str = NONE
    ready: bool = False
    order: Order | None = None
    # The active period.
    position: int = 0
    covers: int = 0
    epoch: int = 0
    number: int = 0  # of the last commit accepted
    contained: StateNumber = NO_STATE  # what the committed offset contains
    claimed: bool = False
    last: int = -1  # the committed offset as far as we know
    step: str = IDLE
    commit: Commit | None = None  # the one in flight
    answer: str = ""  # to it: "ok", "illegal generation", "unknown member"
    fetched: Note | None = None
    overdue: bool = False  # described as active though its last commit is answered


class World(NamedTuple):
    """One state. ``broken`` tells which property the last step broke, "" for none."""

    broker: Broker
    members: tuple[Member, ...]
    budget: tuple[int, ...]
    broken: str = ""


class Move(NamedTuple):
    """A step to another state, in words. Faults spend budget and are not needed for progress."""

    words: str
    fault: bool
    world: World


def name(slot: int) -> str:
    """A B C."""
    return NAMES[slot]


def with_member(world: World, slot: int, member: Member) -> World:
    """The same world with another member in one slot."""
    members = list(world.members)
    members[slot] = member
    return world._replace(members=tuple(members))


def with_seat(broker: Broker, slot: int, seat: Seat | None) -> Broker:
    """The same broker with another member in one seat."""
    seats = list(broker.seats)
    seats[slot] = seat
    return broker._replace(seats=tuple(seats))


def with_txn(broker: Broker, slot: int, txn: Txn | None) -> Broker:
    """The same broker with another transaction of one slot."""
    txns = list(broker.txns)
    txns[slot] = txn
    return broker._replace(txns=tuple(txns))


def is_seated(broker: Broker, slot: int, member: Member) -> bool:
    """Whether the coordinator knows this member id."""
    seat = broker.seats[slot]
    return seat is not None and seat.member == member.member


def break_(world: World, text: str) -> World:
    """The world with a property broken; the first one counts."""
    return world if world.broken else world._replace(broken=text)
