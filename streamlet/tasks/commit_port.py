"""The port of a worker's commits: what they are to the rest of it, whichever way they are made.

``commit.AtLeastOnceCommit`` is one way, ``transactional_commit.TransactionalCommit`` another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import attrs

from streamlet.coordinator.commit_texts import TextRules
from streamlet.coordinator.events import CommitDone, CommitOutcome
from streamlet.tasks.active import ActiveTask, TaskCommit
from streamlet.tasks.task_record import Unit, UnitStage
from streamlet.types import TopicPartition


@attrs.frozen(eq=False)
class Settled:
    """A commit and what became of it.

    ``unit`` is that which it belongs to, if any. ``gone`` are inputs that no position is kept of
    any more, since their topics were deleted.
    """

    outcome: CommitOutcome
    parts: tuple[TaskCommit, ...]
    unit: Unit | None = None
    gone: frozenset[TopicPartition] = frozenset()

    @property
    def accepted(self) -> tuple[TaskCommit, ...]:
        """The shares that it covers: of tasks that have an input left."""
        if self.outcome is not CommitOutcome.ACCEPTED:
            return ()
        return tuple(part for part in self.parts if not self.gone.issuperset(part.offsets))

    @property
    def without_input(self) -> tuple[ActiveTask, ...]:
        """The tasks that all inputs are gone of: nothing of them was committed."""
        gone = self.gone
        return tuple(part.active for part in self.parts if gone and gone.issuperset(part.offsets))

    @property
    def outdated(self) -> tuple[ActiveTask, ...]:
        """The tasks that are to be brought up again: those, and of topics that were made again."""
        return self.without_input + tuple(part.active for part in self.accepted if part.remade)

    @property
    def of_unit(self) -> CommitDone | None:
        """The outcome of the unit that is over with it, if one is."""
        unit = self.unit
        ended = unit is not None and unit.stage is UnitStage.COMMITTING
        if unit is None or (self.outcome is CommitOutcome.ACCEPTED and not ended):
            return None
        return CommitDone(unit.token, self.outcome)


class CommitPort(Protocol):
    """Commits of a worker's tasks, one under way at most; ``commit.AtLeastOnceCommit`` is one.

    Attributes:
        accepted: commits accepted so far.
        flush_ns: nanoseconds that the delivery of what they cover took.
        texts: the rules for the texts beside positions.
        settle: called with a task before its share is taken: ends the batch that it has under way.
    """

    accepted: int
    flush_ns: int
    texts: TextRules
    settle: Callable[[ActiveTask], None]

    @property
    def under_way(self) -> bool:
        """True if a commit is not yet accepted, or not yet written to the local stores."""
        ...

    @property
    def sent(self) -> bool:
        """True if the coordinator has not answered a commit yet."""
        ...

    @property
    def sealed(self) -> bool:
        """True while no record may be processed: what comes of it would be in the commit."""
        ...

    @property
    def delivering(self) -> bool:
        """True while deliveries that take long are waited for: more outputs would be in the way."""
        ...

    def begin(
        self, tasks: Iterable[ActiveTask], unit: Unit | None = None, *, at_once: bool = False
    ) -> None:
        """Prepare and send a commit of every task that has something to say, claims included.

        With one under way, go on with that, and send it again if it was turned away: call this
        until it is sent, or with ``at_once`` just once. ``unit`` is one that waits for it: a join
        that is due waits for that unit, so it goes out all the same, and at once.

        Raises:
            TaskMigratedError: our last heartbeat is too old and the group does not know us any
                more.
            DeliveryError: something was not delivered; nothing was committed.
            BrokerError: the broker does not answer just now; call again.
            StateError: a task's stores fail, which the error names; ``forget`` it and call again.
        """
        ...

    def begin_claims(self, unit: Unit, tasks: Sequence[ActiveTask]) -> bool:
        """Claim those stopped tasks of a unit that were not claimed yet; False: there is none.

        What they did can only be committed after that. Raises as ``begin``.
        """
        ...

    def begin_last(self, unit: Unit, tasks: Sequence[ActiveTask]) -> None:
        """Commit the stopped tasks of a unit for the last time; none may be under way.

        Every one of them is committed, also with nothing new to say: the unit's ``marks`` tell whom
        it is released to. Raises as ``begin``.
        """
        ...

    def done(
        self,
        token: int,
        outcome: CommitOutcome,
        code: int,
        gone: frozenset[TopicPartition] = frozenset(),
    ) -> Settled | None:
        """Take the coordinator's answer; None if no commit waits for it any more.

        A commit that was turned away, or whose outcome is unknown, stays under way and is sent
        again by ``begin``, without its marks: the order they answered is not held any more.

        Raises:
            BrokerError: the coordinator will never accept it.
        """
        ...

    def forget(self, active: ActiveTask) -> None:
        """Leave a task that is about to be closed out of the commit under way.

        What was accepted of it is written: its copy on disk is then as of its last commit.
        """
        ...

    def abort(self) -> None:
        """Drop the commit under way; what was accepted of it is still written."""
        ...

    def forget_queued(self) -> None:
        """Deliver nothing any more of what was written so far: all tasks it stems from are lost."""
        ...

    def finish(self) -> None:
        """Write all that was accepted to the local stores.

        Raises:
            StateError: a store refuses.
        """
        ...
