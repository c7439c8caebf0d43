"""Decides about tasks whose positions, logs and state disagree, by ``state.mismatch.policy``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future

import attrs

from streamlet.clock import Clock
from streamlet.errors import BrokerError
from streamlet.runtime.mismatch import Mismatch, MismatchKind, at_the_end, begun_anew, continued
from streamlet.runtime.targets import Target
from streamlet.state.entries import CommitEntry
from streamlet.state.task_state import TaskState
from streamlet.types import NO_STATE, TaskId

log = logging.getLogger(__name__)

#: How often a task is given back before the policy decides.
_OFFERS = 2


def state_entry(state: TaskState) -> CommitEntry | None:
    """The local state with the input positions it belongs to; None where they are not known."""
    if state.inputs is None or state.state == NO_STATE or not state.on_disk:
        return None
    return CommitEntry(state.state, state.inputs, {})


@attrs.frozen(eq=False)
class _Search:
    """A search for commit entries; without ``mismatch`` it tells if inputs are new ones."""

    target: Target
    answer: Future[CommitEntry | None]
    mismatch: Mismatch | None = None
    local: CommitEntry | None = None


class Decisions:
    """The tasks of one worker that something disagrees about.

    Args:
        application: for messages.
        policy: ``state.mismatch.policy``.
        search: reads changelogs for the newest commit entry, on a thread of its own.
        clock: for the wait for other members.
        patience_ms: how long a member that has the state may take to come back.
    """

    def __init__(
        self,
        application: str,
        policy: str,
        search: Callable[[TaskId, Target], Future[CommitEntry | None]],
        *,
        clock: Clock,
        patience_ms: int,
    ) -> None:
        self._application = application
        self._policy = policy
        self._search = search
        self._clock = clock
        self._patience_ms = patience_ms
        #: Found once, and confirmed when found again.
        self._found: dict[TaskId, MismatchKind] = {}
        #: How often each task was given back to the group, where another member may have its state:
        #: at once, and once more after a while, since the last owner may just be starting again.
        self._offered: dict[TaskId, int] = {}
        self._offers: dict[TaskId, str] = {}
        self._offer_at_ms: dict[TaskId, tuple[int, str]] = {}
        self._searches: dict[TaskId, _Search] = {}
        self._decided: dict[TaskId, Target] = {}

    @property
    def tasks(self) -> frozenset[TaskId]:
        """The tasks that are not decided yet, or not taken, or to be given back."""
        return frozenset((*self._searches, *self._decided, *self._offers, *self._offer_at_ms))

    def confirmed(self, mismatch: Mismatch) -> bool:
        """True if the same was found before; a commit meanwhile may explain the first time."""
        before = self._found.get(mismatch.task)
        self._found[mismatch.task] = mismatch.kind
        return before is mismatch.kind

    def over(self, task: TaskId) -> None:
        """Forget what was found: the task begins."""
        self._found.pop(task, None)
        self._offered.pop(task, None)

    def forget(self, task: TaskId) -> None:
        """Decide nothing about this task."""
        self._searches.pop(task, None)
        self._decided.pop(task, None)
        self._offers.pop(task, None)
        self._offer_at_ms.pop(task, None)

    def given_back(self) -> dict[TaskId, str]:
        """Tasks to give back to the group now, with the reasons."""
        now = self._clock.now_ms()
        for task, (at_ms, reason) in list(self._offer_at_ms.items()):
            if at_ms <= now:
                del self._offer_at_ms[task]
                self._offers[task] = reason
        offers, self._offers = self._offers, {}
        return offers

    def decide(self, mismatch: Mismatch, target: Target, local: CommitEntry | None) -> None:
        """Do what the policy says; ``take`` brings the target.

        Raises:
            PositionsMismatchError: the policy is to stop, or cannot be carried out.
        """
        task = mismatch.task
        if mismatch.kind is MismatchKind.CHANGELOG and self._offered.get(task, 0) < _OFFERS:
            self._offer(task, mismatch.reason)
        elif self._policy == "reset":
            log.warning("task %s is reset: %s", task, mismatch.reason)
            self._decided[task] = begun_anew(target)
        elif self._policy == "fail":
            raise mismatch.error(self._application)
        elif mismatch.kind is MismatchKind.INPUT:
            log.warning("task %s goes on at the ends of its inputs: %s", task, mismatch.reason)
            self._decided[task] = at_the_end(target)
        else:
            self._continue(mismatch, target, local)

    def _offer(self, task: TaskId, reason: str) -> None:
        before = self._offered.get(task, 0)
        self._offered[task] = before + 1
        wait_ms = self._patience_ms if before else 0
        self._offer_at_ms[task] = self._clock.now_ms() + wait_ms, reason
        log.warning(
            "task %s is given back%s, another member may have its state: %s",
            task,
            f" in {wait_ms} ms" if wait_ms else "",
            reason,
        )

    def _continue(self, mismatch: Mismatch, target: Target, local: CommitEntry | None) -> None:
        rebuilding = target.metadata is not None and target.metadata.rebuilding
        answer: Future[CommitEntry | None] = Future()
        if target.ends and not rebuilding:
            answer = self._search(mismatch.task, target)
        else:
            answer.set_result(None)
        self._searches[mismatch.task] = _Search(target, answer, mismatch, local)

    def look_up(self, task: TaskId, target: Target) -> None:
        """Find the positions that the commit's state belongs to; ``take`` brings the target."""
        self._searches[task] = _Search(target, self._search(task, target))

    def take(self) -> list[tuple[TaskId, Target | None]]:
        """The targets that are known by now; None where the brokers did not answer.

        Raises:
            PositionsMismatchError: no state is known that the task could go on with.
            BrokerError: the changelogs cannot be read.
        """
        found: list[tuple[TaskId, Target | None]] = [*self._decided.items()]
        self._decided.clear()
        for task, search in list(self._searches.items()):
            if not search.answer.done():
                continue
            del self._searches[task]
            try:
                entry = search.answer.result()
            except BrokerError as error:
                if not error.passing:
                    raise
                log.warning("task %s waits for its changelogs: %s", task, error)
                found.append((task, None))
            else:
                found.append((task, self._searched(search, entry)))
        return found

    def _searched(self, search: _Search, entry: CommitEntry | None) -> Target:
        target, mismatch = search.target, search.mismatch
        if mismatch is None:
            same = entry is not None and entry.state == target.limit
            return attrs.evolve(target, recorded=entry.inputs if entry and same else {})
        chosen = continued(target, search.local, entry)
        if chosen is None:
            more = (
                "To continue is not possible: neither the local state nor the changelogs tell for "
                "certain which positions their state belongs to."
            )
            raise mismatch.error(self._application, more)
        log.warning(
            "task %s goes on with commit %s at %s: %s",
            mismatch.task,
            tuple(chosen.limit or NO_STATE),
            ", ".join(f"{tp} {at}" for tp, at in sorted(chosen.offsets.items())),
            mismatch.reason,
        )
        return chosen
