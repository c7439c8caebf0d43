"""A simulated worker: carries out what ``group.handover`` decides, with state that can be checked.

It does what a real one does, in the same order: it opens and restores, claims, processes, flushes
and commits, polls for marks. Time passes only where a message travels or state is restored. The
state of a task is the count of its inputs, so a wrong restore shows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, assert_never

from streamlet.group.commit_metadata import CommitMetadata
from streamlet.group.events import (
    BlockJoinWanted,
    CommitWanted,
    FetchWanted,
    LeaveWanted,
    RejoinWanted,
    UnblockJoinWanted,
)
from streamlet.group.handover_values import (
    Activate,
    BlockJoin,
    Close,
    CommitLast,
    Decision,
    LeaveForGood,
    PollMarks,
    Positions,
    Reclaim,
    Rejoin,
    ResumeTask,
    SetCopies,
    Stop,
    UnblockJoin,
)
from streamlet.group.session_events import CommitDone, CommitOutcome, FetchDone, FetchOutcome
from streamlet.testing.simulation.cluster import changelog_of, input_of
from streamlet.testing.simulation.periods import Commit, CommitShare, Period
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember

#: Records restored per ms, and the longest a restore takes: scenarios say when copies are ready.
RESTORE_RATE, RESTORE_MAX_MS = 1_000, 100
LOCK_RETRY_MS = 5
RETRY_MS = 20


class SimWorker:
    """The tasks of one member."""

    def __init__(self, member: SimMember) -> None:
        self._member = member
        self._world = member.world
        self.periods: dict[TaskId, Period] = {}
        self.following: set[TaskId] = set()
        self._wanted: frozenset[TaskId] = frozenset()
        self._commit: Commit | None = None
        self._unit: CommitLast | None = None
        self._token = self._fetch_token = 0
        self._fetches: dict[int, tuple[TaskId, ...]] = {}  # polls for marks
        self._openings: dict[int, Period] = {}  # reads of positions before opening
        self._reclaims: dict[int, Period] = {}  # and before going on with what was held
        self._by = ""  # member id of the commit that was sent last
        self._next_commit_ms = 0
        self._retry_at_ms = 0
        self.stopping: str | None = None

    @property
    def busy(self) -> bool:
        """True if something is under way besides processing and its commits."""
        claims = any(p.running and not p.claimed for p in self.periods.values())
        return bool(claims or self._unit or self.stopping or (self._commit and self._commit.unit))

    @property
    def running(self) -> list[TaskId]:
        """Tasks that process."""
        return [task for task, period in self.periods.items() if period.running]

    def due_ms(self) -> int | None:
        """The time at which to come round again."""
        if self._commit is not None and self._commit.sent:
            return None
        if self._commit is not None or self._unit is not None:
            return self._retry_at_ms
        if any(period.running and not period.claimed for period in self.periods.values()):
            return self._retry_at_ms
        idle = self._next_commit_ms > self._world.input_until_ms
        return self._next_commit_ms if self.running and not idle else None

    # -- decisions -----------------------------------------------------------------------------

    def carry_out(self, decision: Decision) -> None:
        """Do what was decided."""
        member = self._member
        match decision:
            case Activate(task, positions):
                self._open(Period(task), positions)
            case Reclaim(task):
                self._reclaims[self._fetch((task,))] = self.periods[task]
            case Stop(tasks):
                for task in tasks:
                    self.periods[task].running = False
            case ResumeTask(task):
                self._unit = None  # an assignment or a refusal has overtaken it
                self.periods[task].running = True
            case Close(task):
                self._close(task)
            case SetCopies(learner, standby):
                self._follow(learner | standby)
            case BlockJoin(token, generation, _):
                member.feed(BlockJoinWanted(token, generation))
            case UnblockJoin(token):
                self._unit = None
                member.feed(UnblockJoinWanted(token))
            case CommitLast():
                self._unit = decision
            case PollMarks(tasks):
                self._fetches[self._fetch(tasks)] = tasks
            case Rejoin(reason):
                member.feed(RejoinWanted(reason))
            case LeaveForGood(reason):
                member.instance.drained = True
                member.feed(LeaveWanted(reason))
            case _:
                assert_never(decision)

    def stop(self, reason: str) -> None:
        """Commit what runs and leave, whatever the group wants of us."""
        self.stopping = reason

    def lose_all(self) -> None:
        """The process is gone: nothing is open any more."""
        for task in list(self.periods):
            self._close(task)
        self._follow(frozenset())

    # -- opening -------------------------------------------------------------------------------

    def _open(self, period: Period, positions: Positions | None) -> None:
        old = self.periods.get(period.task)
        assert old is None or old is period, f"{self._member.name} opens {period.task} twice"
        self.periods[period.task] = period
        if not self._lock(period.task):
            again = self._guarded(period, lambda: self._open(period, positions))
            self._world.later(LOCK_RETRY_MS, again)
        elif positions is None:
            self._openings[self._fetch((period.task,))] = period
        else:
            self._restore(period, positions)

    def _guarded(self, period: Period, action: Callable[[], None]) -> Callable[[], None]:
        """Do something later, if the period still lasts."""

        def run() -> None:
            if self.periods.get(period.task) is period:
                action()
                self._member.wake_worker()

        return self._member.when_awake(run)

    def _restore(self, period: Period, positions: Positions) -> None:
        """Restore to the end as it is now, counting what the commit contains."""
        task, newest = period.task, positions.newest
        log = self._world.cluster.logs[task]
        offset = positions.offsets[input_of(task)]
        period.committed = period.position = max(offset, 0)
        period.contained = NO_STATE if newest is None else newest.state
        period.epoch = 1 + max(0 if newest is None else newest.epoch, log.highest_epoch)
        took_ms = 1
        if self._world.cluster.is_stateful(task):
            state = log.restore(period.contained)
            self._world.checks.restored(self._member.name, task, state, period.committed)
            missing = log.lag(self._member.instance.disk.get(task, 0))
            took_ms += min(missing // RESTORE_RATE, RESTORE_MAX_MS)
        self._world.later(took_ms, self._guarded(period, lambda: self._run(period)))

    def _run(self, period: Period) -> None:
        task = period.task
        period.running = True
        if self._world.cluster.is_stateful(task):
            self._member.instance.disk[task] = self._world.cluster.logs[task].end
        self._world.checks.started(self._member, task)
        self._member.handover.running(task, self._world.now_ms)
        self._retry_at_ms = self._world.now_ms

    def _reclaim(self, period: Period, positions: Positions) -> None:
        """Go on with a task that was held open, or start it again (F4)."""
        committed = {input_of(period.task): period.committed}
        if positions.are(committed, period.by, period.epoch):
            period.epoch, period.number, period.claimed = period.epoch + 1, 0, False
            self._run(period)
        else:
            self._close(period.task)
            self._open(Period(period.task), None)

    def _close(self, task: TaskId) -> None:
        if self._unit is not None and task in self._unit.tasks:
            self._unit = None  # it was overdue
        period = self.periods.pop(task, None)
        if self._commit is not None:
            self._commit.parts.pop(task, None)
            if not self._commit.parts and not self._commit.sent:
                self._commit = None
        if period is not None and period.running and self._world.cluster.is_stateful(task):
            self._member.instance.disk[task] = self._world.cluster.logs[task].end
        self._unlock(task)

    # -- copies --------------------------------------------------------------------------------

    def _follow(self, wanted: frozenset[TaskId]) -> None:
        """Read exactly these, as soon as no other member of the instance has their folders."""
        self._wanted = wanted
        for task in sorted(self.following - wanted):
            self.following.discard(task)
            if task not in self.periods:
                self._unlock(task)
        for task in sorted(wanted - self.following):
            if self._lock(task):
                self.following.add(task)
                self._member.instance.disk.setdefault(task, 0)
                self.report(task)
        if wanted - self.following:
            again = self._member.when_awake(lambda: self._follow_again(wanted))
            self._world.later(LOCK_RETRY_MS, again)

    def _follow_again(self, wanted: frozenset[TaskId]) -> None:
        if wanted is self._wanted:
            self._follow(wanted)
            self._member.wake_worker()

    def follow_from_the_start(self) -> None:
        """Take over the copies that were read before the simulation began.

        Of one that has caught up already the group has yet to hear.
        """
        handover = self._member.handover
        for task in sorted(handover.copies):
            self._lock(task)
            self.following.add(task)
            self.report(task)
        self._wanted = frozenset(handover.copies)
        self._member.wake_worker()

    def report(self, task: TaskId) -> None:
        """Tell how far the copy is."""
        instance, log = self._member.instance, self._world.cluster.logs[task]
        if task in self.following and task not in self.periods:
            if instance.disk.get(task, 0) > log.end:
                instance.disk[task] = 0
            self._member.handover.progress(
                task, log.lag(instance.disk.get(task, 0)), self._world.now_ms
            )

    def _lock(self, task: TaskId) -> bool:
        if not self._world.cluster.is_stateful(task):
            return True
        return self._member.instance.locks.setdefault(task, self._member.name) == self._member.name

    def _unlock(self, task: TaskId) -> None:
        locks = self._member.instance.locks
        if locks.get(task) == self._member.name and task not in self.following:
            del locks[task]

    # -- commits -------------------------------------------------------------------------------

    def commit_due(self) -> None:
        """Begin a commit if one is wanted and none is under way."""
        now, commit = self._world.now_ms, self._commit
        if commit is not None and commit.sent:
            return
        if self._unit is not None:
            self._commit_unit(self._unit)
        elif self.stopping is not None:
            self._stop_now()
        elif commit is not None:
            if now >= self._retry_at_ms:
                self._send()
        else:
            self._begin(now)

    def _commit_unit(self, unit: CommitLast) -> None:
        """Commit stopped tasks: what was turned away before, then their claims, then the last."""
        claims = _claims(self.periods[task] for task in unit.tasks)
        if self._commit is not None:
            self._commit.unit = unit
        elif claims:
            self._commit = Commit(claims, unit)
        else:
            self._unit = None
            self._commit = Commit(self._flush(unit.tasks), unit, last=True)
        if self._commit.parts:
            self._send()
        else:  # we may be out of the group already
            self._commit = None
            self._member.handover.committed(unit.token, CommitOutcome.GATED, self._world.now_ms)

    def _begin(self, now: int) -> None:
        live = [period for period in self.periods.values() if period.running]
        parts = _claims(live)
        if parts and now < self._retry_at_ms:
            return
        if now >= self._next_commit_ms and now <= self._world.input_until_ms:
            self._next_commit_ms = now + self._world.settings.commit_interval_ms
            parts |= self._flush(period.task for period in live if period.claimed)
        if parts:
            self._commit = Commit(parts)
            self._send()

    def _flush(self, tasks: Iterable[TaskId]) -> dict[TaskId, CommitShare]:
        """Write what was processed to the changelogs, unless we may be out of the group (C4)."""
        if not self._member.alive():
            return {}
        parts: dict[TaskId, CommitShare] = {}
        for task in tasks:
            period = self.periods[task]
            period.position += 1
            period.number += 1
            number = StateNumber(period.epoch, period.number)
            if self._world.cluster.is_stateful(task):
                self._world.cluster.logs[task].records.append((number, period.position))
            parts[task] = CommitShare(period.position, number)
        return parts

    def stray_flush(self) -> None:
        """Send what was in the producer's queue when the process was stopped."""
        for task, period in self.periods.items():
            if period.running and period.claimed and self._world.cluster.is_stateful(task):
                number = StateNumber(period.epoch, period.number + 1)
                self._world.cluster.logs[task].records.append((number, period.position + 1))

    def _send(self) -> None:
        commit = self._commit
        assert commit is not None
        commit.sent = True
        self._by = self._member.machine.member_id
        self._token += 1
        hold = None if commit.unit is None else commit.unit.token
        self._member.feed(CommitWanted(self._token, self._offsets(commit), hold))

    def _offsets(self, commit: Commit) -> dict[TopicPartition, tuple[int, str]]:
        machine, unit = self._member.machine, commit.unit
        marks = unit.marks if unit is not None and commit.last else {}
        offsets: dict[TopicPartition, tuple[int, str]] = {}
        for task, part in sorted(commit.parts.items()):
            log = self._world.cluster.logs[task]
            text = CommitMetadata(
                epoch=self.periods[task].epoch,
                by=machine.member_id,
                generation=machine.generation if unit is None else unit.generation,
                ends={changelog_of(task): len(log.records)},
                state=part.contained,
                release_to=marks.get(task),
            ).to_text()
            offsets[input_of(task)] = (part.offset, text)
        return offsets

    def _stop_now(self) -> None:
        """The last commit of a worker that is stopped, then goodbye."""
        reason, tasks = (
            self.stopping,
            [t for t, p in self.periods.items() if p.running and p.claimed],
        )
        assert reason is not None
        parts = self._flush(tasks)
        for period in self.periods.values():
            period.running = False
        if parts:
            self._commit = Commit(parts)
            self._send()
        else:
            self._member.feed(LeaveWanted(reason))

    # -- answers -------------------------------------------------------------------------------

    def on_commit(self, result: CommitDone) -> None:
        """Take the outcome of the commit under way."""
        commit = self._commit
        if commit is None or result.token != self._token or not commit.sent:
            return
        commit.sent = False
        if result.outcome is CommitOutcome.REFUSED:
            self._world.checks.refused(self._member.name, result.code)
        accepted = result.outcome is CommitOutcome.ACCEPTED
        if accepted:
            self._accept(commit)
        final = (CommitOutcome.ACCEPTED, CommitOutcome.LOST, CommitOutcome.REFUSED)
        unit, commit.unit = commit.unit, None
        if commit.last or result.outcome in final or not commit.parts:
            self._commit = None  # else the very same commit is sent again
        if unit is not None and (commit.last or not accepted):
            self._unit = None
            self._member.handover.committed(unit.token, result.outcome, self._world.now_ms)
        self._retry_at_ms = self._world.now_ms + (0 if accepted else RETRY_MS)

    def _accept(self, commit: Commit) -> None:
        for task, part in commit.parts.items():
            period = self.periods[task]
            period.committed, period.contained = part.offset, part.contained
            period.by = self._by
            if not period.claimed:
                period.claimed = True
                self._member.handover.claimed(task, self._world.now_ms)

    def _fetch(self, tasks: Iterable[TaskId]) -> int:
        self._fetch_token += 1
        wanted = FetchWanted(self._fetch_token, tuple(input_of(task) for task in tasks))
        self._member.feed(wanted)
        return wanted.token

    def on_fetch(self, result: FetchDone) -> None:
        """Take the committed positions that were read."""
        found = result.outcome is FetchOutcome.FETCHED
        period = self._openings.pop(result.token, None)
        if period is not None and self.periods.get(period.task) is period:
            if found:
                self._restore(period, Positions.of((input_of(period.task),), result.committed))
            else:
                again = self._guarded(period, lambda: self._open(period, None))
                self._world.later(RETRY_MS, again)
        held = self._reclaims.pop(result.token, None)
        if held is not None and self.periods.get(held.task) is held:
            if found:
                self._reclaim(held, Positions.of((input_of(held.task),), result.committed))
            else:
                again = self._guarded(held, lambda: self.carry_out(Reclaim(held.task)))
                self._world.later(RETRY_MS, again)
        for task in self._fetches.pop(result.token, ()):
            seen = Positions.of((input_of(task),), result.committed) if found else None
            self._member.handover.fetched(task, seen, self._world.now_ms)


def _claims(periods: Iterable[Period]) -> dict[TaskId, CommitShare]:
    """The first commits of those that were not claimed yet: the positions they found."""
    return {p.task: CommitShare(p.committed, p.contained) for p in periods if not p.claimed}
