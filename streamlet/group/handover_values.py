"""The decisions of ``handover``, and the few values it works on."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs

from streamlet.config import Settings
from streamlet.group.commit_metadata import CommitMetadata, InputNote
from streamlet.group.events import BlockJoin, Rejoin, UnblockJoin
from streamlet.group.messages import Committed
from streamlet.types import TaskId, TopicPartition

#: The longer a mark has not come, the less often it is looked for: 1/64 of the time waited.
_PATIENCE = 64
_POLL_MAX_MS = 250
#: How long after a commit of the owner the next may be its last: no pause between those that it
#: makes before it stops is longer (``runtime/commit_loop``). Only for so long the learner hurries:
#: all eight members of a scale-down, in a hurry while any of them waited for its turn, kept each
#: other from the processors. So the owner's last commit is never its first since the order, unless
#: that brought nothing (``LITTLE_ENTRIES``).
_BRISK_MS = 300


@attrs.frozen
class HandoverRules:
    """Settings of one member; times in ms, ``acceptable_lag`` in records.

    A learner that is ready goes on until it lags by ``settled_lag`` records, for ``settle_ms`` at
    most, before it is reported: what is missing when the owner stops is part of the gap.
    ``gives_up_at_joins``: before each JoinGroup the member stops what others learn of it (handover
    ``surrender``); ``stops_at_joins``: all it runs (mode ``eager``). ``static``: it has a static
    id, so that its next process is handed the assignment this one was. ``confirm_delay_ms``: after
    its last hand-over a member that leaves waits for so long before it asks for a rebalance, and a
    static one that gave up tasks: until all others have had their turn (``group/leader``).
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


class ClaimStage(enum.StrEnum):
    """The stages in the life of a claim.

    ::

        WAITING ── mark seen ──▶ OPENING ──▶ RUNNING ──▶ STOPPED ──▶ RELEASED
           │                        ▲           ▲           │
           └── given outright ──────┘           ├───────────┘ order withdrawn
                                    HELD ◀──────┘ the group changes its type; ──▶ OPENING
    """

    WAITING = "waiting"  # pending: learns on and polls for the mark
    OPENING = "opening"  # ours; positions are read and state is restored
    RUNNING = "running"
    STOPPED = "stopped"  # processes nothing; its last commit is under way
    RELEASED = "released"  # given up, until an assignment says otherwise
    HELD = "held"  # stopped and committed, kept open until we are in a group of the other type


#: Stages in which the task is ours to run.
OURS = frozenset({ClaimStage.OPENING, ClaimStage.RUNNING, ClaimStage.STOPPED})


@attrs.define
class Claim:
    """A task that is bound to us. ``generation`` is that of the assignment it comes from."""

    stage: ClaimStage
    generation: int
    #: The first commit of the active period was accepted (M4).
    claimed: bool = False
    #: Given up because a join was due, not by an order.
    surrendered: bool = False
    #: The member id it was released to, if to one: from then on that may process the task.
    next_owner: str = ""
    #: While WAITING: since when, when to look for the marker next, whether a look is under way.
    since_ms: int = 0
    poll_at_ms: int = 0
    polling: bool = False
    #: What was found last, and until when the next commit may bring the mark.
    seen: Positions | None = None
    brisk_until_ms: int = 0

    def looked(self, found: Positions | None, now_ms: int, rules: HandoverRules) -> None:
        """Note what a look for the marker found, and when to look again."""
        if found is not None and found != self.seen:
            if self.seen is not None:
                self.brisk_until_ms = now_ms + _BRISK_MS
            self.seen = found
        pause_ms = rules.poll_ms
        if now_ms >= self.brisk_until_ms:
            pause_ms = max(rules.idle_poll_ms, (now_ms - self.since_ms) // _PATIENCE)
        self.polling, self.poll_at_ms = False, now_ms + min(pause_ms, _POLL_MAX_MS)

    def is_near(self, now_ms: int) -> bool:
        """True if no member runs the task until we do, or soon."""
        waiting = self.stage is ClaimStage.WAITING and now_ms < self.brisk_until_ms
        return waiting or self.stage is ClaimStage.OPENING


@attrs.frozen
class Positions:
    """Committed positions of a task's inputs, with what was committed beside them."""

    offsets: dict[TopicPartition, int]
    metadata: tuple[CommitMetadata | None, ...]

    @classmethod
    def of(
        cls, inputs: Iterable[TopicPartition], committed: Mapping[TopicPartition, Committed]
    ) -> Positions:
        """Take the task's inputs out of a fetch; text that cannot be read says nothing."""
        inputs = tuple(inputs)
        offsets = {partition: committed[partition].offset for partition in inputs}
        texts = (committed[partition].metadata for partition in inputs)
        return cls(offsets, tuple(map(CommitMetadata.read, texts)))

    @property
    def notes(self) -> dict[TopicPartition, InputNote]:
        """The notes of the commit, by input."""
        texts = zip(self.offsets, self.metadata, strict=True)
        return {tp: one.note for tp, one in texts if one is not None}

    @property
    def newest(self) -> CommitMetadata | None:
        """The text of the newest commit; the same on all inputs unless a tool set some."""
        found = [one for one in self.metadata if one is not None]
        return max(found, key=lambda one: (one.epoch, one.state), default=None)

    def unlike(self, newest: CommitMetadata | None) -> frozenset[TopicPartition]:
        """The inputs whose commit does not bear this text: another tool set them, or none."""
        texts = zip(self.offsets, self.metadata, strict=True)
        return frozenset(tp for tp, one in texts if one is None or one != newest)

    def are(self, offsets: Mapping[TopicPartition, int], by: str, epoch: int) -> bool:
        """True if this is the commit of that member, epoch and positions, and no other (F4)."""
        same = offsets == self.offsets and bool(self.metadata)
        return same and all(
            one is not None and (one.by, one.epoch) == (by, epoch) for one in self.metadata
        )

    def mark_for(self, member_id: str, generation: int) -> bool:
        """True if all inputs bear the marker of this very order (M7).

        Those without any commit aside: they are new, and its owner does not know of them yet.
        """
        texts = zip(self.offsets.values(), self.metadata, strict=True)
        committed = [one for at, one in texts if at >= 0 or one is not None]
        return bool(committed) and all(
            one is not None and one.is_mark_for(member_id, generation) for one in committed
        )


# -- decisions -------------------------------------------------------------------------------------


@attrs.frozen
class Activate:
    """Become the owner: restore, process from exactly the committed offsets, claim.

    ``positions`` are those of the mark; None: read them, stable, before anything else (M3). The
    changelog's end is read after the positions. Answered by ``running``, ``claimed`` or ``failed``.
    """

    task: TaskId
    positions: Positions | None = None


@attrs.frozen
class Reclaim:
    """Process a held task again, if the last commit of it is still our own: under a new epoch.

    Else close it and become its owner again, as by ``Activate``. Answered like that one (F4).
    """

    task: TaskId


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
class CommitLast:
    """Flush what the stopped tasks did, wait for delivery, then commit them for the last time.

    With the hold of the same token, and one commit for all. A task whose claim was not accepted yet
    is claimed first (M4), and a commit that was turned away goes before. Tasks in ``marks`` get a
    mark for that member id with ``generation`` (M5). Answered by ``committed``, once.
    """

    token: int
    tasks: tuple[TaskId, ...]
    marks: dict[TaskId, str]
    generation: int


@attrs.frozen
class PollMarks:
    """Read the committed positions of these tasks, stable; each is answered by ``fetched``."""

    tasks: tuple[TaskId, ...]


@attrs.frozen
class LeaveForGood:
    """Leave the group for good: nothing is ours any more and the group knows."""

    reason: str


Decision: TypeAlias = (
    Activate
    | Reclaim
    | Stop
    | ResumeTask
    | Close
    | SetCopies
    | BlockJoin
    | UnblockJoin
    | CommitLast
    | PollMarks
    | Rejoin
    | LeaveForGood
)
