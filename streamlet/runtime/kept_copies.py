"""A copy on this worker: its stages, and what the worker's loop is told of it."""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs

from streamlet.runtime.opening import OpenTask
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TaskId


class CopyStage(enum.StrEnum):
    """The stages of a copy: WANTED ──▶ FOLLOWED ──▶ PROMOTING; back to WANTED where stores fail."""

    WANTED = "wanted"  # to be opened, as soon as its folder and its changelogs allow it
    FOLLOWED = "followed"  # open; its changelogs are read on
    PROMOTING = "promoting"  # read to the ends of its owner's last commit, then not ours any more


@attrs.define(eq=False)
class KeptCopy:
    """One copy. ``limit``: of the commit it is promoted to; ``lag``: the one reported last."""

    task: TaskId
    stage: CopyStage = CopyStage.WANTED
    opened: OpenTask | None = None
    limit: StateNumber | None = None
    lag: int | None = None

    @property
    def state(self) -> TaskState:
        """The stores of an open copy."""
        assert self.opened is not None, self.task
        return self.opened.state


@attrs.frozen
class CopyLag:
    """The lag of a copy: records left to read in its changelog that is furthest behind."""

    task: TaskId
    lag: int


@attrs.frozen(eq=False)
class Promoted:
    """A copy is as of the commit it was promoted to; its stores are the taker's from now on.

    ``limit`` is that commit's state, as ``promote`` was given it.
    """

    opened: OpenTask
    limit: StateNumber | None


@attrs.frozen
class CopyFailed:
    """A copy cannot be kept here."""

    task: TaskId
    reason: str


CopyEvent: TypeAlias = CopyLag | Promoted | CopyFailed
