"""Active periods of a simulated worker, and the commit under way."""

from __future__ import annotations

import attrs

from streamlet.group.handover_values import CommitLast
from streamlet.types import NO_STATE, StateNumber, TaskId


@attrs.define(eq=False)
class Period:
    """One active period of a task."""

    task: TaskId
    running: bool = False
    epoch: int = 0
    number: int = 0  # of the last flush
    claimed: bool = False
    by: str = ""  # member id of the last commit
    contained: StateNumber = NO_STATE
    committed: int = 0
    position: int = 0


@attrs.frozen
class CommitShare:
    """One task's share of a commit."""

    offset: int
    contained: StateNumber


@attrs.define
class Commit:
    """The one commit under way.

    ``unit`` where it belongs to stopped tasks; ``last`` where it is their last.
    """

    parts: dict[TaskId, CommitShare]
    unit: CommitLast | None = None
    last: bool = False
    sent: bool = False
