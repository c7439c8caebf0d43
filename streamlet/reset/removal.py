"""The steps that a reset and a deletion share: the application is stopped, and its topics go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs

from streamlet.admin.members import removal_hint
from streamlet.admin.window import GroupWindow
from streamlet.control.records import place_of
from streamlet.control.values import ResetEpoch
from streamlet.coordinator.codes import name_of
from streamlet.coordinator.messages import LeaveGroup, LeaveGroupAnswer
from streamlet.errors import (
    BrokerError,
    MissingRightError,
    NoSuchGroupError,
    RefusedError,
    StreamletError,
)
from streamlet.logs import get_logger
from streamlet.reset.waiting import UNFINISHED, Progress, ResetStep, silent
from streamlet.rights import GROUP_REFUSED, Right, missing

log = get_logger(__name__)

_DELETING = "deleting topics"
_REQUEST_MS = 10_000
#: UNKNOWN_MEMBER_ID: it has left meanwhile.
_UNKNOWN_MEMBER = 25


def check_stopped(window: GroupWindow) -> None:
    """Refuse an application with members in its group.

    Raises:
        RefusedError: it is running.
    """
    try:
        group = window.group()
    except NoSuchGroupError:
        return  # its positions have expired, or were never there
    members = group.described.members
    if not members:
        return
    static = sorted(m.instance_id for m in members if m.instance_id is not None)
    hint = removal_hint(window.name, static)
    names = ", ".join(sorted(m.name for m in group.members))
    count = f"{len(members)} member{'s' * (len(members) != 1)}"
    raise RefusedError(
        f"{window.name} is running: {count} in its group ({names}). Nothing was changed: stop "
        "all instances first. One that was killed is out of the group when its session.timeout"
        f".ms is over{hint}"
    )


def member_names(window: GroupWindow) -> tuple[str, ...]:
    """The names of the members of an application's group, sorted; none without a group."""
    try:
        return tuple(sorted(member.name for member in window.group().members))
    except NoSuchGroupError:
        return ()


def remove_members(window: GroupWindow) -> None:
    """Take all members out of an application's group; those that are alive join again.

    Raises:
        MissingRightError: the broker refuses.
        BrokerError: a member stays, or the broker does not answer.
    """
    try:
        members = window.group().described.members
    except NoSuchGroupError:
        return
    for one in members:
        reason = "an operator resets the application"
        request = LeaveGroup(window.name, one.member_id, one.instance_id, reason)
        answer = window.transport.send(request, "main", _REQUEST_MS).result()
        assert isinstance(answer, LeaveGroupAnswer), answer
        code = answer.error
        if code == GROUP_REFUSED:
            right = Right("READ", "group", window.name)
            raise MissingRightError(f"members cannot be removed; {missing(right)}")
        if code not in (0, _UNKNOWN_MEMBER):
            raise BrokerError(f"member {one.member_id} cannot be removed: {name_of(code)}")


@attrs.frozen
class TopicRemoval:
    """Deletes topics of an application, and waits for that.

    Args:
        window: where they are.
        progress: given the progress at each look at the brokers.
        unfinished: the consequence of being broken off, and what to do.
    """

    window: GroupWindow
    progress: Progress = silent
    unfinished: str = UNFINISHED

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        """The ids of the topics of these names that exist."""
        admin = self.window.admin
        return admin.topic_ids(sorted(admin.topics().keys() & set(names)))

    def delete(self, before: ResetEpoch, entry: ResetEpoch, old: Mapping[str, str]) -> None:
        """Note the beginning in the control topic, delete topics and wait until they are gone.

        From their deletion on the entry stays: brokers may still show what they are to delete.

        Args:
            before: the entry that is there.
            entry: that in its place.
            old: the topics with their ids.

        Raises:
            RefusedError: an instance has started; nothing was changed.
            BrokerError: the brokers refuse.
            TimedOutError: it takes too long, or was stopped.
            KeyboardInterrupt: stopped before anything was changed.
        """
        window = self.window
        if window.stopped.is_set():
            raise KeyboardInterrupt("nothing was changed")
        self.progress(_DELETING, 0, len(old))
        window.control.write(entry)
        window.control.flush()
        try:
            check_stopped(window)
            window.admin.delete_topics(sorted(old))
        except StreamletError:
            if before.pending is None:
                self._withdraw(before, old)
            raise
        self.await_deleted(old)

    def await_deleted(self, old: Mapping[str, str]) -> None:
        """Wait until the topics with these ids are gone; new topics may have their names.

        Raises:
            TimedOutError: it takes too long, or was stopped.
        """
        names = sorted(old)

        def gone() -> int:
            there = set(self.window.admin.topic_ids(names).values())
            return sum(old[name] not in there for name in names)

        what = f"topics {', '.join(names)} to be deleted"
        self.finish(_DELETING, gone, len(names), what)

    def finish(self, text: str, count: Callable[[], int], total: int, what: str) -> None:
        """Return once all of a step is done; see ``ResetStep``."""
        step = ResetStep(text, count, total, what, self.unfinished)
        step.finish(self.window.clock, self.window.stopped, self.progress)

    def _withdraw(self, before: ResetEpoch, old: Mapping[str, str]) -> None:
        """Put the entry of before back, if none of these topics has been deleted."""
        control = self.window.control
        try:
            if self.ids(old) != old:
                return
            if before.epoch:
                control.write(before)
            else:
                control.remove(place_of(before))
            control.flush()
        except StreamletError as error:
            log.warning("what was begun stays noted as unfinished, give it again: %s", error)
