"""Commits before tasks are stopped to be handed over, so that little is left to copy then.

Precopy is the term of live migration. The entries of the owner's last commits are what the copy at
the new owner has still to read, while no member runs the task. So the owner commits while it goes
on, gives the copy time to take that in, and commits what came in between, until that is little: the
rounds of a live migration's pre-copy. One commit alone left up to a second's changes: the longest
of 40 gaps was 70 ms, with these rounds the longest of 100 is 41 ms. Joins are blocked only when the
last round is done, since stopped tasks would wait for it.

Owners that the same plan tells to give up tasks take turns with it, see ``group.leader``.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamlet.types import TaskId

#: Changed entries of a commit that may be the last before tasks are stopped. The first may be that
#: only without any: the new owner hurries once it has seen a commit (``Claim.looked``).
LITTLE_ENTRIES = 1_000
#: Commits at most, and how long the copy is given for each thousand entries, at least and at most,
#: ms. Alone it would need a tenth; it shares its processors with all else that goes on.
MOST_ROUNDS = 4
MS_A_THOUSAND = 25
LEAST_MS = 60
MOST_MS = 200
#: Share of ``handover.timeout.ms`` in which they have to begin: the new owner waits already.
SHARE_OF_TIMEOUT = 0.25


class ReleaseDelays:
    """The time at which this member may release each task.

    It counts from the first plan that orders the release. When it began again with each rebalance,
    owners came late, and at once again.
    """

    def __init__(self) -> None:
        self._at_ms: dict[TaskId, int] = {}

    def ordered(self, release: Iterable[TaskId], turn_ms: int, now_ms: int) -> None:
        """Take the tasks that a plan has us release, and these only, so long after now.

        The wait counts from the first of the plans that say so: they may follow each other faster
        than turns come.
        """
        self._at_ms = {task: self._at_ms.get(task, now_ms + turn_ms) for task in release}

    def wait_ms(self, tasks: Iterable[TaskId], now_ms: int) -> int:
        """The time until tasks may be stopped, ms. Other releases may wait for ours."""
        ours = self._at_ms.keys() & set(tasks)
        return max(self._at_ms[min(ours)] - now_ms, 0) if ours else 0


class Precopy:
    """The commits before one stop.

    Args:
        handover_timeout_ms: when the new owner gives up waiting.
    """

    def __init__(self, handover_timeout_ms: int) -> None:
        self._limit_ms = int(handover_timeout_ms * SHARE_OF_TIMEOUT)
        self._rounds = self._until_ms = 0
        self._due_ms: int | None = None

    def begin(self, now_ms: int, wait_ms: int = 0) -> None:
        """Tasks are to be stopped soon: a commit is due when it is their turn."""
        self._rounds, self._due_ms = 0, now_ms + min(wait_ms, self._limit_ms // 2)
        self._until_ms = now_ms + self._limit_ms

    def end(self) -> None:
        """End the pre-copy: a member cannot wait, or no task is to be stopped any more."""
        self._rounds, self._due_ms = 0, None

    def due(self, now_ms: int) -> bool:
        """True if a commit is to begin now."""
        return self._due_ms is not None and now_ms >= self._due_ms

    def committing(self, now_ms: int) -> None:
        """A commit begins; it covers everything until now. Before our turn it is none of ours."""
        if self._due_ms is not None and (self._rounds or self.due(now_ms)):
            self._rounds, self._due_ms = self._rounds + 1, None

    def committed(self, entries: int, now_ms: int) -> None:
        """A commit brought the copies so many entries."""
        little = LITTLE_ENTRIES if self._rounds > 1 else 0
        if self.over and 0 < self._rounds < MOST_ROUNDS and entries > little:
            pause_ms = max(LEAST_MS, min(entries * MS_A_THOUSAND // 1000, MOST_MS))
            if now_ms + pause_ms < self._until_ms:
                self._due_ms = now_ms + pause_ms

    @property
    def over(self) -> bool:
        """True if the tasks may be stopped, unless a commit is under way."""
        return self._due_ms is None
