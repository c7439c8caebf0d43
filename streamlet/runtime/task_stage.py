"""The stages in the life of a task on one member, and the moves between them.

::

    CREATED ──▶ ASKING ──▶ OPENING ──▶ RESTORING ──▶ READY ──▶ RUNNING ◀──▶ STOPPED
       │           │        ▲   │          │           ▲
       │           │        │   ▼          ▼           │
       │           │      DECIDING ◀───────┘           │
       └───────────┴──▶ PROMOTING ─────────────────────┘

Each stage also leads to CLOSED. ASKING, DECIDING, OPENING and RESTORING lead back to CREATED, where
no broker answers or all is to be read once more; RESTORING back to OPENING, where stores fail; and
PROMOTING to ASKING or OPENING, where the copy cannot be had. Until READY a task belongs to
``runtime.activation``, from there on to ``runtime.task_registry``. Whether the member may run it at
all is for the claims to say (``group.handover_values.ClaimStage``).
"""

from __future__ import annotations

import enum


class TaskStage(enum.StrEnum):
    """The stages in the life of a task."""

    CREATED = "created"  # wanted; nothing was asked yet, or all is to be asked again
    ASKING = "asking"  # brokers are asked for its committed positions and the ends of its logs
    DECIDING = "deciding"  # these and its state disagree, or more of the logs is to be read
    OPENING = (
        "opening"  # its folder is to be opened: once no other process has it, or after a pause
    )
    RESTORING = "restoring"  # its stores are open, and read on from changelogs
    PROMOTING = "promoting"  # the state updater brings its copy to exactly the commit
    READY = "ready"  # its stores are as of the committed positions
    RUNNING = "running"  # it processes; until its claim is accepted it writes to no changelog
    STOPPED = "stopped"  # it processes nothing, and its last commit is under way
    CLOSED = "closed"  # gone; its folder stays as a dormant copy


_ON_WAY = frozenset({TaskStage.CREATED, TaskStage.CLOSED})

#: Legal moves.
MOVES: dict[TaskStage, frozenset[TaskStage]] = {
    TaskStage.CREATED: frozenset(
        {TaskStage.ASKING, TaskStage.OPENING, TaskStage.PROMOTING, TaskStage.CLOSED}
    ),
    TaskStage.ASKING: _ON_WAY | {TaskStage.OPENING, TaskStage.PROMOTING},
    TaskStage.DECIDING: _ON_WAY | {TaskStage.OPENING},
    TaskStage.OPENING: _ON_WAY | {TaskStage.RESTORING, TaskStage.DECIDING},
    TaskStage.RESTORING: _ON_WAY | {TaskStage.READY, TaskStage.OPENING, TaskStage.DECIDING},
    TaskStage.PROMOTING: frozenset(
        {TaskStage.READY, TaskStage.OPENING, TaskStage.ASKING, TaskStage.CLOSED}
    ),
    TaskStage.READY: frozenset({TaskStage.RUNNING, TaskStage.CLOSED}),
    TaskStage.RUNNING: frozenset({TaskStage.STOPPED, TaskStage.CLOSED}),
    TaskStage.STOPPED: frozenset({TaskStage.RUNNING, TaskStage.CLOSED}),
    TaskStage.CLOSED: frozenset(),
}


def moved(task: object, before: TaskStage, after: TaskStage) -> TaskStage:
    """The stage after a move of this task; AssertionError if it is not a legal one."""
    assert after in MOVES[before], f"{task}: {before} -> {after}"
    return after
