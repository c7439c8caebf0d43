"""Groups with hostile members, planned by the real leader, looked at by ``status`` and advised.

What a member says, what the control topic says of it, and what the leader told it before are drawn
from whole values and from such as cannot be. Nothing that a member says may end the leader, a
command or another member.
"""

from __future__ import annotations

import json
import random
import re
from collections import deque
from collections.abc import Callable
from io import StringIO
from typing import Any

import attrs

from streamlet.admin import snapshot, status
from streamlet.admin.advice import Observation, advise
from streamlet.admin.current import CurrentGroup, loads
from streamlet.assignor.assign import assign
from streamlet.assignor.values import Copy, Role, Rules, TaskInfo
from streamlet.control.records import encode_key, encode_value, place_of
from streamlet.control.values import (
    Endpoint,
    Mark,
    MemberProgress,
    PauseMark,
    Shutdown,
    TaskProgress,
)
from streamlet.control.view import ControlView
from streamlet.coordinator.messages import GroupDescription, MemberDescription
from streamlet.rebalance import leader, wire
from streamlet.rebalance import wire_schemas as schemas
from streamlet.rebalance.values import JoinedMember, RunAssignor
from streamlet.terminal import console
from streamlet.tools import status_view
from streamlet.types import TaskId, TopicPartition
from tests.fuzz.mutate import mutated
from tests.fuzz.target import Target
from tests.fuzz.targets_members import SUBSCRIPTION

HASHES = (b"12345678", b"abcdefgh")
TASKS = tuple(
    TaskInfo(TaskId(part, number), stateful=bool(part)) for part in range(2) for number in range(3)
)

_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_INTS = (
    -(1 << 63),
    -(1 << 31),
    -1,
    0,
    1,
    2,
    7,
    199_999,
    200_000,
    (1 << 31) - 1,
    1 << 40,
    (1 << 63) - 1,
)
_FLOATS = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, -1.0, 5e-324, 1e308, 1.0, 3.5)
_TEXTS = ("", "m0", "m1", "p0", "0_0", "x" * 5000, "\x1b[2J", "é", "0_199999")


def play(dice: random.Random) -> None:
    """Draw a group of four members, and go through a generation of it."""
    said = [_said(dice, number) for number in range(4)]
    members = tuple(JoinedMember(f"m{number}", None, data) for number, data in enumerate(said))
    view = leader.LeaderView(TASKS, HASHES, Rules(), 1_766_000_000_000)
    run = RunAssignor(dice.choice((2, 7)), members, member_id="m0")
    answers = leader.plan(run, view, assign)
    for answer in answers.values():
        wire.decode_assignment(answer)
    _look(dice, said, answers)


def _said(dice: random.Random, number: int) -> bytes:
    """The bytes of a member: of an honest one, of one with forged fields, or damaged ones."""
    honest = attrs.evolve(
        SUBSCRIPTION,
        instance=f"p{number}",
        name=f"h{number}",
        copies={TaskId(number % 2, number % 3): Copy(Role.ACTIVE, dice.choice((1, 2)))},
    )
    kind = dice.random()
    if kind < 0.3:
        return wire.encode_subscription(honest)
    if kind < 0.4:
        return mutated(dice, (wire.encode_subscription(honest),))
    record = wire._subscription_record(honest, wire.VERSION)
    for _ in range(dice.randint(1, 3)):
        _forge(dice, record)
    try:
        return wire._encode(schemas.SUBSCRIPTIONS, wire.VERSION, wire.VERSION, record)
    except Exception:  # no bytes can say it: Avro has no such number or text
        return wire.encode_subscription(honest)


def _forge(dice: random.Random, fields: Any) -> None:
    """Another value at some place within."""
    while isinstance(fields, dict | list) and fields:
        key = dice.choice(list(fields)) if isinstance(fields, dict) else dice.randrange(len(fields))
        value = fields[key]
        if isinstance(value, dict | list) and value and dice.random() < 0.7:
            fields = value
            continue
        fields[key] = _other(dice, value)
        return


def _other(dice: random.Random, value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return dice.choice(_INTS)
        case float():
            return dice.choice(_FLOATS)
        case str():
            return dice.choice(_TEXTS)
        case bytes():
            return dice.choice((b"", b"\0", b"x" * 300, value[::-1]))
        case list():
            return value * dice.choice((0, 2, 50)) or [dice.choice(_INTS) for _ in range(3)]
    return value


def _look(dice: random.Random, said: list[bytes], answers: dict[str, bytes]) -> None:
    """Describe the group, as ``status`` has it, with words of its members."""
    described = tuple(
        MemberDescription(
            *(f"m{number}", None, "c", "h", data),
            mutated(dice, (answers[f"m{number}"],))
            if dice.random() < 0.2
            else answers[f"m{number}"],
        )
        for number, data in enumerate(said)
    )
    group = snapshot.read(GroupDescription("g", "Stable", "stream", "p", described, 0))
    control = ControlView()
    for entry in [_word(dice) for _ in range(dice.randint(0, 6))]:
        control = control.apply(encode_key(place_of(entry)), encode_value(entry))
    present = CurrentGroup(group, control)
    lag = {TopicPartition("lines", 0): dice.choice(_INTS)}
    seen = deque(Observation(**_observed(dice, at)) for at in (0, 1))
    document = status.document(group, lag, present.violations(), control)
    json.dumps(document)
    for checked in (False, True):
        people = StringIO()
        console(people).print(status_view.view(document, checked))
        assert not _CONTROLS.search(people.getvalue())
    advise(seen, loads(present), len(snapshot.tasks(group)))


def _observed(dice: random.Random, at: int) -> dict[str, Any]:
    tp = TopicPartition("lines", 0)
    return {"at_ms": at * 1000, "ends": {tp: 7 + at}, "committed": {tp: at}}


def _word(dice: random.Random) -> Any:
    """An entry of the control topic; one that cannot be is passed over where it is read."""
    pick: Callable[..., Any] = dice.choice
    if pick((0, 0, 1)):
        return pick(
            (
                Mark(f"p{pick(range(4))}", pick(_INTS), successors=(pick(_TEXTS),)),
                Endpoint("p1", pick(_INTS), *"mh", 80),
                PauseMark(pick(("all", "0", *_TEXTS)), pick(_INTS), pick(_TEXTS)),
                Shutdown("p1", pick(_TEXTS), pick(_INTS), pick(_TEXTS)),
            )
        )
    task = TaskProgress(
        pick((*_TEXTS, "0_1", "1_2")),
        *(pick(("active", "learner", "king")), pick(("running", "ready", "x"))),
        *(pick((None, *_INTS)) for _ in range(3)),
        pick((None, 1.5, 1e308, 5e-324)),
        generation=pick(_INTS),
        problem=pick((None, *_TEXTS)),
    )
    return MemberProgress(
        *(f"p{pick(range(4))}", pick(_INTS), pick(_TEXTS), f"m{pick(range(4))}", pick(_INTS)),
        generation=pick(_INTS),
        tasks=(task,) * pick((1, 2)),
        busy=pick((None, 0.5, -1e308)),
    )


GROUPS = Target("groups", lambda raw: play(random.Random(raw)), (), (b"one", b"two"), batch=2)
