"""Deletes an application from a cluster: internal topics, then its group, its control topic last.

The order makes it safe to be broken off anywhere, as that of a reset does. First the control topic
says that a reset is under way, so that no instance starts; while that topic is there, the same
command finds the application and goes on. A reset gives it a start again in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from streamlet.admin.applications import check_known
from streamlet.admin.window import GroupWindow
from streamlet.control.view import ControlView
from streamlet.coordinator.codes import name_of
from streamlet.coordinator.messages import Committed
from streamlet.errors import BrokerError, MissingRightError, RefusedError
from streamlet.kafka.ports import NewTopic, TopicInfo
from streamlet.reset.own_topics import InternalTopicFinder
from streamlet.reset.removal import TopicRemoval, check_stopped
from streamlet.reset.waiting import Progress, silent
from streamlet.rights import GROUP_REFUSED, Right, missing
from streamlet.scaling.command_lock import command_lock
from streamlet.types import TopicPartition

_REQUEST_MS = 10_000
#: NON_EMPTY_GROUP, and GROUP_ID_NOT_FOUND: it has expired, or an attempt before deleted it.
_NOT_EMPTY, _NOT_FOUND = 68, 69
#: The consequence of a deletion that was broken off, and what to do.
UNFINISHED = (
    "The deletion is unfinished, and no instance starts: give the same command again, or "
    "streamlet reset to have the application start again"
)


@attrs.frozen
class DeletePlan:
    """All that goes with an application.

    ``topics`` are its internal topics, ``control`` its control topic. ``left`` are topics that may
    be internal ones of it and prove nothing: they stay. ``positions`` counts the partitions in
    which its group has committed positions. ``sources`` are their topics.
    """

    application: str
    topics: tuple[NewTopic, ...]
    control: str
    left: tuple[str, ...]
    positions: int
    sources: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The internal topics, by name."""
        return tuple(topic.name for topic in self.topics)

    def as_dict(self, *, done: bool) -> dict[str, Any]:
        """The document that the command prints."""
        return {
            "application": self.application,
            "topics": [*self.names, self.control],
            "positions": self.positions,
            "left": list(self.left),
            "done": done,
        }


@attrs.frozen
class Deletion:
    """Deletes one application.

    Args:
        window: on it.
        progress: given the progress of each step at each look at the brokers.
    """

    window: GroupWindow
    progress: Progress = silent

    def plan(self) -> DeletePlan:
        """Find what there is of it; nothing is changed.

        Raises:
            NotFoundError: no such application.
            RefusedError: it is running.
            BrokerError: the broker does not answer, or refuses.
        """
        topics = self.window.admin.topics()
        check_known(self.window, topics)
        check_stopped(self.window)
        return self._plan(topics, self.window.committed(), self.window.control.read())

    def carry_out(self) -> DeletePlan:
        """Do it; when this returns nothing is left but what the plan leaves.

        Raises:
            RefusedError: it is running, or another command is running.
            DeletionDisabledError: the brokers delete no topics; nothing was changed.
            TimedOutError: brokers took too long; the same command again goes on.
            BrokerError: the broker does not answer, or refuses.
            KeyboardInterrupt: stopped before anything was changed.
        """
        window, removal = self.window, TopicRemoval(self.window, self.progress, UNFINISHED)
        with command_lock(window, f"deletion of {window.name}"):
            plan = self._begin(removal)
            self._delete_group()
        window.close_control()  # its producer would make the topic again
        ids = window.admin.topic_ids([plan.control])
        window.admin.delete_topics([plan.control])
        removal.await_deleted(ids)
        return plan

    def _begin(self, removal: TopicRemoval) -> DeletePlan:
        """Delete the internal topics, in our turn."""
        window, control = self.window, self.window.control
        check_stopped(window)  # the operator may have been asked for long
        before = control.view.reset
        plan = self._plan(window.admin.topics(), window.committed(), control.view)
        epoch = before.next_epoch if before.pending is None else before.epoch
        entry = attrs.evolve(before, epoch=epoch, pending=plan.topics, sources=plan.sources)
        removal.delete(before, entry, removal.ids(plan.names))
        return plan

    def _plan(
        self,
        topics: Mapping[str, TopicInfo],
        committed: Mapping[TopicPartition, Committed],
        view: ControlView,
    ) -> DeletePlan:
        own = InternalTopicFinder(self.window).find(topics, committed, view.reset.pending or ())
        remade = [one for one in own.recreated if one.name in topics]
        gone = self.window.admin.definitions(sorted(own.removed)).values()
        mine = {one.name: one for one in (*remade, *gone)}
        sources = {tp.topic for tp in committed} | set(view.reset.sources)
        return DeletePlan(
            self.window.name,
            tuple(mine[name] for name in sorted(mine)),
            self.window.control.name,
            own.left,
            len(committed),
            tuple(sorted(sources - mine.keys())),
        )

    def _delete_group(self) -> None:
        name = self.window.name
        code = self.window.transport.delete_group(name, _REQUEST_MS).result()
        if code == _NOT_EMPTY:
            raise RefusedError(
                f"an instance of {name} joined while it was deleted. {UNFINISHED}, once all "
                "instances are stopped"
            )
        if code == GROUP_REFUSED:
            raise MissingRightError(
                f"group {name} cannot be deleted; {missing(Right('DELETE', 'group', name))}. "
                f"{UNFINISHED}"
            )
        if code not in (0, _NOT_FOUND):
            raise BrokerError(f"group {name} cannot be deleted: {name_of(code)}. {UNFINISHED}")
