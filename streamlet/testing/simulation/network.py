"""The way between members and the fake coordinator: messages are late, lost or doubled.

A connection keeps the order of its messages, as TCP does. A message is lost together with its
connection, so the sender learns of it, but not whether the request arrived: it may have been
handled, may never arrive, or may arrive seconds later.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias

import attrs

from streamlet.coordinator.events import Connection, FailureKind, Send
from streamlet.coordinator.messages import (
    Answer,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    OffsetCommit,
    OffsetCommitAnswer,
    Request,
    SyncGroup,
)
from streamlet.coordinator.ports import TransportError
from streamlet.errors import StateError, TaskCorruptedError
from streamlet.tasks.opening import REOPEN_MS
from streamlet.testing.coordinator_desk import RequestId
from streamlet.testing.simulation.events import Lose, NetworkSpec
from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.testing.coordinator import Answers
    from streamlet.testing.simulation.member import SimMember
    from streamlet.testing.simulation.world import World

#: How much later than the sender's failure a request may still arrive.
LATE_MS = 3_000

#: Process, number of the request, and which copy of it.
_Id: TypeAlias = tuple[int, int, int]


@attrs.define(eq=False)
class _InFlight:
    sender: SimMember
    send: Send
    answer: Future[Answer]
    answer_lost: bool = False
    failed: bool = False  # its sender has given up already
    counted: bool = True  # as traffic that a step waits for

    def fail(self) -> None:
        """Tell the sender that its connection broke."""
        if not self.answer.done():
            self.answer.set_exception(TransportError(FailureKind.DISCONNECTED, "it broke"))


class Network:
    """Carries requests and answers in simulated time."""

    def __init__(self, world: World, spec: NetworkSpec, seed: int) -> None:
        self._world = world
        self._spec = spec
        self._dice = random.Random(f"network of {seed}")
        self._faults = random.Random(f"faults of {seed}")
        self._steps = random.Random(f"steps of {seed}")
        self._patience = random.Random(f"patience of {seed}")
        self._in_flight: dict[RequestId, _InFlight] = {}
        self._last_there: dict[tuple[int, Connection], int] = {}
        self._last_back: dict[tuple[int, Connection], int] = {}
        self._losses: list[tuple[Lose, set[str]]] = []
        self._sent: list[Counter[str]] = []
        #: Messages on their way that a step waits for; what else waits for one says so itself.
        self.traffic = 0
        #: When the stores of a task failed last.
        self.disk_failed_ms: dict[TaskId, int] = {}
        #: Called with each request, and whether it or its answer gets lost.
        self.watch: Callable[[SimMember, Request, bool], None] = lambda sender, request, lost: None

    def latency(self) -> int:
        """The time a thread takes to come round, in ms; now and then a user function is slow."""
        slowest = self._spec.delay_ms[1]
        if slowest == 0:
            return 1
        chance = self._dice.random()
        if chance < 0.03:
            return self._dice.randint(0, 5 * slowest)
        return self._dice.randint(0, slowest if chance < 0.1 else 5)

    def spread(self) -> int:
        """The time until a member's heartbeat is due, in ms."""
        return self._dice.randint(0, 100) if self._spec.delay_ms[1] else 0

    def lose(self, lose: Lose, senders: set[str]) -> None:
        """Arm a loss; counting begins now."""
        self._losses.append((lose, senders))
        self._sent.append(Counter())

    def travel(self, action: Callable[[], None]) -> None:
        """Do something after the time a message takes."""
        self.traffic += 1

        def arrive() -> None:
            self.traffic -= 1
            action()

        self._world.later(self._delay(), arrive)

    def loses(self, sender: SimMember, request: Request) -> bool:
        """True if a request of a client beside the membership gets no answer."""
        return self._named(sender, request) is not None or self._dice.random() < self._spec.loss

    def hop(self) -> int:
        """The time that something lies in the queue between two threads, in ms.

        Now and then the other one has no processor, or plans for a large group.
        """
        slowest = self._spec.delay_ms[1]
        if slowest == 0:
            return 0
        return self._faults.randint(0, slowest if self._faults.random() < 0.03 else 3)

    def step_ms(self) -> int:
        """The time that a step of the threads that keep copies takes beside what it reads, in ms.

        Now and then the disk is slow.
        """
        slowest = self._spec.delay_ms[1]
        return self._steps.randint(1, slowest) if slowest and self._steps.random() < 0.1 else 0

    def refuses(self) -> bool:
        """True if a broker does not take records just now, as often as it loses a message."""
        refused = self._spec.loss > 0 and self._faults.random() < self._spec.loss
        if refused:
            self._world.disturbed_ms = self._world.now_ms + LATE_MS
        return refused

    def gives_up(self) -> bool:
        """True if records that a broker refuses are given up: one time in four."""
        return self._patience.random() < 0.25

    def check_disk(self, task: TaskId) -> None:
        """Use the stores of a task.

        Raises:
            StateError: they fail, as often as a message is lost; half of them are damaged then.
        """
        if self.refuses():
            kind = TaskCorruptedError if self._faults.random() < 0.5 else StateError
            error = kind(f"the disk refuses to read or write {task}")
            error.task = task
            self._world.disturbed_ms = self._world.now_ms + 2 * REOPEN_MS
            self.disk_failed_ms[task] = self._world.now_ms
            raise error

    def round_trip(self) -> int:
        """The time until such a request is answered, in ms."""
        return 1 + self._delay() + self._delay()

    def send(self, sender: SimMember, send: Send, answer: Future[Answer]) -> None:
        """Put a request on its way; ``answer`` is what it gets."""
        self._world.protocol.sent(sender, send.request)
        named = self._named(sender, send.request)
        lost = named is not None or self._dice.random() < self._spec.loss
        self.watch(sender, send.request, lost)
        if lost:
            self._lose(_InFlight(sender, send, answer), named)
            return
        # Without an id a static join cannot be distinguished from its own double: the second fences
        # it.
        nameless = isinstance(send.request, JoinGroup) and not send.request.member_id
        doubled = not nameless and self._dice.random() < self._spec.duplicate
        self._depart(_InFlight(sender, send, answer))
        if doubled:  # at the heels of the first, as on one connection nothing comes between
            self._depart(_InFlight(sender, send, answer), copy=1, delay_ms=0)

    def hang_up(self, sender: SimMember, connection: Connection) -> None:
        """Cut one connection of a member: nothing that waits on it is answered."""
        for in_flight in self._in_flight.values():
            if in_flight.sender is sender and in_flight.send.connection is connection:
                in_flight.fail()

    def _named(self, sender: SimMember, request: Request) -> Lose | None:
        """The loss that a scenario asks for of this request."""
        kind, found = type(request).__name__, None
        for index, (lose, senders) in enumerate(self._losses):
            if sender.name in senders and kind == lose.request:
                self._sent[index][kind] += 1
                found = lose if self._sent[index][kind] == lose.nth else found
        return found

    def _lose(self, in_flight: _InFlight, named: Lose | None) -> None:
        sender, send = in_flight.sender, in_flight.send
        self._world.disturbed_ms = self._world.now_ms + LATE_MS
        fates = (
            ["never", "answer", "late"]
            if isinstance(send.request, OffsetCommit)
            else ["never", "answer"]
        )
        fate = self._dice.choice(fates) if named is None else "answer" if named.answer else "never"
        if fate == "answer":
            self._depart(attrs.evolve(in_flight, answer_lost=True))
            return
        if fate == "late":
            late = attrs.evolve(in_flight, answer_lost=True, failed=True, counted=False)
            delay_ms = self._dice.randint(0, LATE_MS)
            self._world.later(delay_ms, lambda: self._arrive(late, (sender.uid, send.number, 9)))
        self.travel(in_flight.fail)

    def _delay(self) -> int:
        low, high = self._spec.delay_ms
        return self._dice.randint(low, high) if high else 0

    def _depart(self, in_flight: _InFlight, *, copy: int = 0, delay_ms: int | None = None) -> None:
        in_flight.counted = isinstance(in_flight.send.request, JoinGroup | SyncGroup | LeaveGroup)
        self.traffic += in_flight.counted
        key = (in_flight.sender.uid, in_flight.send.connection)
        delay_ms = self._delay() if delay_ms is None else delay_ms
        at_ms = max(self._world.now_ms + delay_ms, self._last_there.get(key, 0))
        self._last_there[key] = at_ms
        number = (in_flight.sender.uid, in_flight.send.number, copy)
        self._world.at(at_ms, lambda: self._arrive(in_flight, number))

    def _arrive(self, in_flight: _InFlight, number: _Id) -> None:
        self.traffic -= in_flight.counted
        if not in_flight.sender.alive_process:
            return  # taken out of the group already, and a ghost of it must not come back
        world, request = self._world, in_flight.send.request
        if isinstance(request, JoinGroup):
            world.reasons.note(in_flight.sender.name, request.reason)
        elif isinstance(request, LeaveGroup):
            world.reasons.note(in_flight.sender.name, "left")
        self._in_flight[number] = in_flight
        answers = world.coordinator.handle(number, request, world.now_ms, in_flight.sender.name)
        for answered, answer in answers:
            if answered == number and isinstance(request, OffsetCommit):
                assert isinstance(answer, OffsetCommitAnswer)
                world.checks.committed(in_flight.sender, request, answer)
                world.committed()
        self.deliver(answers)

    def deliver(self, answers: Answers) -> None:
        """Carry answers back."""
        for number, answer in answers:
            in_flight = self._in_flight.pop(number, None)
            if in_flight is None:
                continue
            if isinstance(answer, JoinGroupAnswer) and answer.member_id:
                self._world.name_member(answer.member_id, in_flight.sender)
            if in_flight.answer_lost:
                if not in_flight.failed:
                    self.travel(in_flight.fail)
                continue
            self._return(in_flight, answer)

    def _return(self, in_flight: _InFlight, answer: Answer) -> None:
        key = (in_flight.sender.uid, in_flight.send.connection)
        at_ms = max(self._world.now_ms + self._delay(), self._last_back.get(key, 0))
        self._last_back[key] = at_ms
        self.traffic += in_flight.counted

        def arrive() -> None:
            self.traffic -= in_flight.counted
            if not in_flight.answer.done():
                in_flight.answer.set_result(answer)

        self._world.at(at_ms, arrive)

    def cut(self) -> None:
        """All connections break: whatever waits for an answer fails."""
        requests, self._in_flight = self._in_flight, {}
        for in_flight in requests.values():
            if not in_flight.failed:
                self.travel(in_flight.fail)
