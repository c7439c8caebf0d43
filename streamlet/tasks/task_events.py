"""The settings, events and actions of a member's ``TaskManager``; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import attrs

from streamlet.assignor.values import Leaving
from streamlet.config import Settings
from streamlet.coordinator import events as ev
from streamlet.coordinator.commit_metadata import Positions
from streamlet.rebalance.values import Assignment
from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.tasks.open_task import OpenTask
    from streamlet.tasks.task_record import Unit


@attrs.frozen
class HandoverRules:
    """Settings of one member; times in ms, ``acceptable_lag`` in records.

    A learner that is ready goes on until it lags by ``settled_lag`` records, for ``settle_ms`` at
    most, before it is reported: what is missing when the owner stops is part of the gap.
    ``gives_up_at_joins``: before each JoinGroup the member stops what others learn of it (handover
    ``surrender``); ``stops_at_joins``: all it runs (mode ``eager``). ``static``: it has a static
    id, so that its next process is handed the assignment this one was. ``confirm_delay_ms``: after
    its last hand-over a member that leaves waits for so long before it asks for a rebalance, and a
    static one that gave up tasks: until all others have had their turn (``assignor/path``).
    After a quarter of a second it fell amid the others' turns, and had them begin together.
    """

    acceptable_lag: int = 10_000
    partial: bool = True
    linger_ms: int = 50
    settled_lag: int = 1_000
    settle_ms: int = 1_500
    confirm_delay_ms: int = 1_250
    timeout_ms: int = 10_000
    gives_up_at_joins: bool = False
    stops_at_joins: bool = False
    poll_ms: int = 5
    idle_poll_ms: int = 20
    retry_ms: int = 50
    standbys: int = 0
    static: bool = False

    @property
    def announced_joins(self) -> bool:
        """True if the membership has to announce joins (``MembershipConfig.announce_joins``)."""
        return self.gives_up_at_joins or self.stops_at_joins

    @classmethod
    def from_settings(cls, settings: Settings) -> HandoverRules:
        """Take the settings of an application."""
        return cls(
            acceptable_lag=settings.acceptable_recovery_lag,
            partial=settings.learner_partial_rebalance,
            linger_ms=settings.learner_ready_linger_ms,
            timeout_ms=settings.handover_timeout_ms,
            standbys=settings.num_standby_replicas,
            static=settings.group_instance_id is not None,
            gives_up_at_joins=settings.learner_handover == "surrender",
            stops_at_joins=settings.stream_rebalancing_mode == "eager",
        )


# -- events ----------------------------------------------------------------------------------------


@attrs.frozen
class JoinDescribed:
    """Our tasks go into a JoinGroup, as ``TaskManager.view`` describes them behind this event."""


@attrs.frozen
class LeavingSet:
    """Our instance is to leave, or to stay after all."""

    leaving: Leaving | None


@attrs.frozen
class PositionsRead:
    """Committed positions of a task that ``PollMarks`` asked for; None: none that are stable."""

    task: TaskId
    positions: Positions | None


@attrs.frozen
class CopyLag:
    """The lag of a copy: records left to read in its changelog that is furthest behind."""

    task: TaskId
    lag: int


@attrs.frozen
class TaskRunning:
    """The task was restored and processes."""

    task: TaskId


@attrs.frozen
class TaskClaimed:
    """A commit of the task was accepted: the first one of an active period is its claim (M4)."""

    task: TaskId


@attrs.frozen
class TaskReopening:
    """A running task was closed, and is brought up here once more: it claims again (M4)."""

    task: TaskId


@attrs.frozen
class TaskFailed:
    """The task cannot be opened here, for this reason."""

    task: TaskId
    reason: str


TaskEvent: TypeAlias = (
    ev.Assigned[Assignment]
    | ev.Lost
    | JoinDescribed
    | LeavingSet
    | ev.JoinSoon
    | ev.JoinBlocked
    | ev.CommitDone
    | PositionsRead
    | CopyLag
    | TaskRunning
    | TaskClaimed
    | TaskReopening
    | TaskFailed
    | ev.Tick
)


# -- events of the state updater, for the stream thread --------------------------------------------


@attrs.frozen(eq=False)
class Restored:
    """The stores of a task, restored or promoted, are as of its target; the taker's from now on."""

    opened: OpenTask


@attrs.frozen
class CopyFailed:
    """A copy cannot be kept here now, and is closed."""

    task: TaskId
    reason: str


@attrs.frozen(eq=False)
class RestoreFailed:
    """A task cannot be restored with these stores, and they are closed."""

    opened: OpenTask
    reason: str


CopyEvent: TypeAlias = CopyLag | Restored | CopyFailed | RestoreFailed


# -- actions ---------------------------------------------------------------------------------------


@attrs.frozen
class Activate:
    """Become the owner: restore, process from exactly the committed offsets, claim.

    ``positions`` are those of the mark; None: read them, stable, before anything else (M3). The
    changelog's end is read after the positions. Answered by ``TaskRunning`` and
    ``TaskClaimed``, or by ``TaskFailed``.
    """

    task: TaskId
    positions: Positions | None = None


@attrs.frozen
class Reclaim:
    """Process a held task again, if these positions are of our own last commit: under a new epoch.

    Else close it and become its owner again, as by ``Activate``. Answered like that one (F4).
    """

    task: TaskId
    positions: Positions


@attrs.frozen
class Stop:
    """Process nothing more of these tasks, but keep them as they are: ``CommitLast`` follows."""

    tasks: tuple[TaskId, ...]


@attrs.frozen
class ResumeTask:
    """Process a stopped task again: it was not given up after all."""

    task: TaskId


@attrs.frozen
class Close:
    """Stop the task if it runs, write nothing, close its stores; its files stay on disk."""

    task: TaskId


@attrs.frozen
class SetCopies:
    """Read the changelogs of exactly these; close other copies, their files stay (U13)."""

    learner: frozenset[TaskId]
    standby: frozenset[TaskId]


@attrs.frozen
class GiveUp:
    """Commit what the tasks of a unit change while they go on, then have joins wait for it.

    Asked for by its token (``BlockJoin``), which is answered by ``JoinBlocked``.
    """

    unit: Unit


@attrs.frozen
class CommitLast:
    """Flush what the stopped tasks did, wait for delivery, then commit them for the last time.

    With the hold of their unit, and one commit for all. A task whose claim was not accepted yet is
    claimed first (M4), and a commit that was turned away goes before. Tasks in the unit's ``marks``
    get a mark for that member id (M5) with the generation, which the hold keeps as it is. Answered
    by a ``CommitDone`` of the unit's token, once.
    """

    unit: Unit


@attrs.frozen
class PollMarks:
    """Read the committed positions of these tasks, stable; each by a ``PositionsRead``."""

    tasks: tuple[TaskId, ...]


@attrs.frozen
class LeaveForGood:
    """Leave the group for good: nothing is ours any more and the group knows."""

    reason: str


_Event = TypeVar("_Event")


def of_kind(kind: type[_Event], events: Sequence[object]) -> list[_Event]:
    """The events of a kind, in their order."""
    return [event for event in events if isinstance(event, kind)]


Action: TypeAlias = (
    Activate
    | Reclaim
    | Stop
    | ResumeTask
    | Close
    | SetCopies
    | GiveUp
    | ev.UnblockJoin
    | CommitLast
    | PollMarks
    | ev.Rejoin
    | LeaveForGood
)
