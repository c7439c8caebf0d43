"""One command at a time changes marks: a lock by the order of the control topic.

A command writes that it is there, reads to the end and looks who was first; the others wait until
that one has taken its entry back. One that died with the lock is passed over after a while, so it
must be held shortly: the operator is asked before.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from streamlet.admin.window import GroupWindow
from streamlet.clock import Clock
from streamlet.control.records import place_of
from streamlet.control.topic import ControlTopic
from streamlet.control.values import Command
from streamlet.errors import (
    BrokerError,
    DeliveryError,
    RefusedError,
    UndeliveredError,
    UnreachableError,
)
from streamlet.logs import get_logger

log = get_logger(__name__)

#: After so long without an end a command counts as dead.
DEAD_MS = 30_000
#: So long one waits for others.
PATIENCE_MS = 2 * DEAD_MS
_FOLLOW_MS = 100


@contextmanager
def command_lock(window: GroupWindow, what: str) -> Iterator[None]:
    """Run the block while no other command changes marks; the topic is read when it begins.

    What the block queued and could not deliver is not delivered any more when it has ended.

    Raises:
        RefusedError: others took too long, or we were stopped.
        BrokerError: the control topic cannot be read.
        DeliveryError: it cannot be written.
    """
    control, clock = window.control, window.clock
    ours = Command(uuid.uuid4().hex, what, clock.wall_ms())
    try:
        control.write(ours)
        control.flush()
    except DeliveryError as error:
        kind = UnreachableError if error.passing else BrokerError
        raise kind(
            f"topic {control.name} cannot be written: {error}. Nothing was changed; does it take a "
            "right to WRITE that we do not have?"
        ) from error
    try:
        control.read()
        _wait(window, ours)
        yield
    except DeliveryError as error:
        control.forget_unwritten()  # we are about to say that it was not delivered
        undelivered = UndeliveredError if error.passing else DeliveryError
        raise undelivered(
            f"{error}. A broker that stopped answering may have taken it all the same: `streamlet "
            "status` shows who is to leave, and giving the command again does nothing twice"
        ) from error
    finally:
        _give_back(control, ours)


def _give_back(control: ControlTopic, ours: Command) -> None:
    """Release the lock. What was done under it stands, also if others do not hear of the end."""
    try:
        control.remove(place_of(ours))
        control.flush()
    except DeliveryError as error:
        control.forget_unwritten()
        log.warning("other commands wait for %d s: %s", DEAD_MS // 1000, error)


def _wait(window: GroupWindow, ours: Command) -> None:
    control, clock = window.control, window.clock
    since_ms = clock.now_ms()
    seen: dict[str, int] = {}
    while (first := _first(control, clock, ours, seen)) != ours:
        if window.stopped.is_set() or clock.now_ms() - since_ms > PATIENCE_MS:
            raise RefusedError(
                f"another command is running: {first.what}; try again when it has ended"
            )
        control.follow(_FOLLOW_MS)


def _first(control: ControlTopic, clock: Clock, ours: Command, seen: dict[str, int]) -> Command:
    """The first command that may be alive; those that must be dead are removed.

    ``seen`` is since when, by our own clock, each is there: its time may be that of a host whose
    clock is ahead, which would have others wait for as long.
    """
    now_ms, wall_ms = clock.now_ms(), clock.wall_ms()
    commands = control.view.commands.values()
    for command in commands:  # also those that are not the first yet: else they die one by one
        seen.setdefault(command.id, now_ms)
    for command in commands:
        age_ms = max(wall_ms - command.at_ms, now_ms - seen[command.id])
        if command == ours or age_ms < DEAD_MS:
            return command
        control.remove(place_of(command))
    return ours
