"""Histories in which some members commit by transactions and others do not.

The state is exact under both guarantees, whoever has the tasks next. Outputs of members without
transactions may be there again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamlet.config import Settings
from streamlet.coordinator.events import CommitOutcome
from streamlet.coordinator.messages import Committed, OffsetCommit
from streamlet.errors import UndeliveredError
from streamlet.processing.edges.agreement import Agreement
from streamlet.processing.edges.held_records import period_of
from streamlet.processing.edges.held_writer import HeldWriter, Period
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.testing.memory_ports import MemorySink
from tests.simulation.transactions.broker import Broker
from tests.simulation.transactions.history import MOST_QUIET, History
from tests.simulation.transactions.owner import Owner

_UNKNOWN = -1


class LateSink(MemorySink):
    """A producer whose deliveries may be lost, or come when it has given them up."""

    def __init__(self, broker: Broker, fate: Callable[[str], str]) -> None:
        super().__init__(broker.log, hold=True)
        self._broker, self._fate = broker, fate

    def flush(self, timeout_ms: int) -> None:
        """Deliver all, or have it fail."""
        if self._queue and self._broker.ask(self._fate("Flush"), self._taken()) is None:
            raise UndeliveredError("simulated")

    def _taken(self) -> Callable[[], int]:
        """What was queued, on its way."""
        way = MemorySink(self._log, hold=True)
        way._queue, self._queue = self._queue, []

        def arrives() -> int:
            way.deliver()
            return 0

        return arrives


class TellingOwner(Owner):
    """A member whose periods tell of those before them, and write nothing until they are claimed.

    So under exactly_once the claim is a transaction of its own.
    """

    def _came_up(self, active: ActiveTask) -> None:
        number = period_of(1, active.epoch)
        period = Period(active.task, number, key=b"simulated")
        active.held = HeldWriter(period, {}, Agreement(held=True))

    def _may_process(self, active: ActiveTask) -> bool:
        assert active.held is not None
        active.held.markers(0)
        return not active.held.silent


class PlainOwner(TellingOwner):
    """A member that commits positions without transactions.

    Args:
        fate: of its requests.
        rejoin: called when it does not know what became of a commit.
        others: as of ``Owner``.
    """

    transactional = False
    settings = Settings.load({"consumer.isolation.level": "read_committed"})

    def __init__(
        self, fate: Callable[[str], str], rejoin: Callable[[Owner], None], *others: Any
    ) -> None:
        self._fate, self._rejoin = fate, rejoin
        super().__init__(*others)

    def _opened_sink(self) -> LateSink:
        return LateSink(self._broker, self._fate)

    def _commit_port(self, delivery: ChangelogDelivery) -> AtLeastOnceCommit:
        group: Any = self
        return AtLeastOnceCommit(group, delivery, self._clock)

    def _ended_by(self, request: OffsetCommit) -> int:
        positions = {tp: Committed(*one) for tp, one in request.offsets.items()}
        facts = request.generation, request.member_id, positions
        code = self._broker.ask(self._fate("OffsetCommit"), lambda: self._broker.commit(*facts))
        return _UNKNOWN if code is None else code

    def _answered(self, outcome: CommitOutcome) -> None:
        """Begin again behind a commit that is not known, in another generation."""
        if outcome is not CommitOutcome.ACCEPTED:
            self._rejoin(self)
            self._lose()


class SwitchedHistory(History):
    """A history of members of both guarantees.

    Of so many keys most are not written again soon, so what does not count is not hidden by it.
    """

    keys = tuple(b"%d" % key for key in range(30))

    def _new_owner(self) -> Owner:
        name = next(self._names)
        self.broker.members.add(name)
        folder = self._folder / self._dice.choice("xy")
        facts = self.broker, name, folder, self._topology, self._app.policy
        if self._dice.random() < 0.5:
            return TellingOwner(*facts)
        return PlainOwner(self.fate, self._went_on, *facts)

    def _went_on(self, one: Owner) -> None:
        """A member that is still one joins again."""
        if one is self._owner:
            self.broker.generation += 1
            self._follow(self._owner, self._next)

    def _verdict(self) -> str:
        """X2: the state that the last commit left is that of its position."""
        self._owner.die()
        self._replace()
        for _ in range(MOST_QUIET):
            if wrong := self._turn(self._owner):
                return wrong
            if self._owner.running:
                return ""
        return "not finished"
