"""A member's side of moving tasks: what it does with an assignment, one step at a time.

Sans-IO, like ``membership``: events in, actions out. It is not thread-safe; a worker whose
JoinGroups are described by another thread calls it under one lock.
The rules are numbered as in the hand-over protocol, which was checked by a model: each of them,
left out, lets two members run one task, or loses state.

* M1 claims live as long as the member id: ``Lost``
* M2 no JoinGroup between the stop of a task and the answer to its last commit: ``BlockJoin``
* M3 a member that was not running a task begins at its committed positions: ``Activate``
* M4 an active period begins with a claim; no task is given up before that: ``TaskClaimed``
* M5 an order to release is one unit: hold, stop, commit the mark, release
* M6 after an unknown outcome the task counts as released, and nothing else is committed
* M7 a mark counts only if it answers the order held: its generation, our present member id
* M8 who cannot activate gives the order back and never acts on it again: ``TaskFailed``
* F2 ordered into a group of another type: stop, commit, hold open what that commit covers
* F3 in the other group: claim what is held, with the generation it comes from
* F4 go on with a held task only if no other member has committed it meanwhile: ``Reclaim``
* M9 a restarted process carries out no order of its predecessor (``TasksProtocol`` sees to it)

A member never acts on what it has not applied: whatever a JoinGroup said of us, orders change only
with ``Assigned``, as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.assignor.values import Copy, Leaving, Role
from streamlet.coordinator import events as ev
from streamlet.coordinator.commit_metadata import Positions
from streamlet.rebalance.values import Assignment
from streamlet.tasks import task_events as te
from streamlet.tasks.followed_copies import FollowedCopies
from streamlet.tasks.task_record import OURS, TaskRecord, TaskStage, Unit
from streamlet.types import TaskId


class TaskManager:
    """The tasks of one member: claims, copies, orders.

    Args:
        rules: the member's settings.
    """

    def __init__(self, rules: te.HandoverRules) -> None:
        self.rules = rules
        self.records: dict[TaskId, TaskRecord] = {}
        self.followed = FollowedCopies(rules, self.records)
        self.leaving: Leaving | None = None
        self.generation = -1
        self._member_id = ""
        self._orders = Assignment()
        self._out: list[te.Action] = []
        self._unit: Unit | None = None
        self._join: int | None = None  # token of an announced join that waits for the unit
        self._migrating = False  # that join is another group type's
        self._tokens = self._retry_at_ms = 0
        self._follow_up_at_ms: int | None = None
        self._known = False  # we have been described to the group
        self._descriptions = 0  # to the group, so far
        self._described = False  # in a JoinGroup that was not answered yet
        self._owes_rejoin = False
        self._asked_to_confirm = False
        self._confirm_at_ms: int | None = None  # when to ask for that, once all is given up
        self._leaving_reported = False
        self._left = False

    @property
    def claims(self) -> dict[TaskId, TaskRecord]:
        """Tasks that are ours, or will be, or were until we gave them up."""
        known = self.records.items()
        return {task: one for task, one in known if one.stage is not TaskStage.COPIED}

    def handle(self, event: te.TaskEvent, now_ms: int) -> tuple[te.Action, ...]:
        """Take one event and give the actions that follow from it, in order."""
        match event:
            case ev.Assigned():
                self._assigned(event, now_ms)
            case ev.Lost():
                self._lost()
            case te.JoinDescribed():
                self._describe()
            case te.LeavingSet(leaving):
                self._set_leaving(leaving)
            case ev.JoinSoon():
                self._join_due(event, now_ms)
            case ev.JoinBlocked(token, granted):
                self._join_blocked(token, granted, now_ms)
            case ev.CommitDone(token, outcome):
                self._committed(token, outcome, now_ms)
            case te.PositionsRead(task, positions):
                self._read(task, positions, now_ms)
            case te.CopyLag(task, lag):
                if self.followed.progress(task, lag, now_ms):
                    self._tick(now_ms)
            case te.TaskRunning(task):
                self._running(task)
            case te.TaskClaimed(task):
                self._claimed(task, now_ms)
            case te.TaskReopening(task):
                self._reopening(task, now_ms)
            case te.TaskFailed(task, reason):
                self._failed(task, reason)
            case ev.Tick():
                self._tick(now_ms)
        actions, self._out = tuple(self._out), []
        return actions

    # -- the group -----------------------------------------------------------------------------

    def _assigned(self, event: ev.Assigned[Assignment], now_ms: int) -> None:
        """Apply an assignment: it replaces the one before entirely.

        The same generation once more (a join without a rebalance) changes nothing.
        """
        generation, orders = event.generation, event.assignment
        self._described = False
        if generation == self.generation:
            return
        self.generation, self._member_id, self._orders = generation, event.member_id, orders
        self._end_unit()
        self._join, self._confirm_at_ms, self._retry_at_ms = None, None, now_ms
        self._owes_rejoin, self._asked_to_confirm = bool(orders.revoke), False
        self._follow_up_at_ms = orders.follow_up_ms
        for task in sorted(self.claims):
            self._renew(task, now_ms)
        for task in sorted(orders.active - self._stages(*OURS)):
            self._enter(task, TaskStage.OPENING)
            self._out.append(te.Activate(task))
        for task in sorted(orders.pending.keys() - self._stages(*OURS, TaskStage.WAITING)):
            self._enter(task, TaskStage.WAITING, now_ms)
        self.followed.follow(orders, now_ms)
        self._proceed(now_ms)

    def _renew(self, task: TaskId, now_ms: int) -> None:
        """Take a claim over into the new assignment, or end it."""
        claim, orders = self.records[task], self._orders
        if claim.stage in (*OURS, TaskStage.HELD) and task not in self._given():
            self._close(task)  # given away without asking us, after a break (L5) or a migration
        elif claim.stage is TaskStage.HELD:
            self._enter(task, TaskStage.OPENING, now_ms)
            self.records[task].reclaims = True
        elif claim.stage in OURS:
            claim.generation = self.generation
            if claim.stage is TaskStage.STOPPED:  # its unit took too long and was overtaken
                claim.move_to(TaskStage.RUNNING)
                self._out.append(te.ResumeTask(task))
        elif claim.stage is TaskStage.WAITING and task in orders.pending:
            claim.generation = self.generation
        else:  # the order is replaced by another, or by nothing; what was released is final
            self._end(task)

    def _given(self) -> frozenset[TaskId]:
        """The tasks that the assignment has us run, also those to give up at once."""
        return self._orders.active | self._orders.release.keys() | self._orders.revoke

    def _enter(self, task: TaskId, stage: TaskStage, now_ms: int = 0) -> None:
        """Begin a claim in this stage; nothing of another one before counts."""
        before = self.records.get(task, TaskRecord())
        self.records[task] = before.anew(stage, self.generation, now_ms)

    def _end(self, task: TaskId) -> None:
        """End a claim; a copy followed beside it is kept."""
        record = self.records.pop(task)
        record.move_to(TaskStage.CLOSED)
        if record.copy is not None:
            self.records[task] = TaskRecord(copy=record.copy)

    def _close(self, task: TaskId) -> None:
        self._end(task)
        self._out.append(te.Close(task))

    def _release(self, task: TaskId, next_owner: str = "", *, surrendered: bool = False) -> None:
        record = self.records[task]
        record.move_to(TaskStage.RELEASED)
        record.next_owner, record.surrendered = next_owner, surrendered
        self._out.append(te.Close(task))

    def _lost(self) -> None:
        """Stop all that is ours, write nothing, claim nothing; copies stay (M1)."""
        for task in sorted(self._stages(*OURS, TaskStage.HELD)):
            self._close(task)
        for task in self.claims:
            self._end(task)
        tokens = [self._join, None if self._unit is None else self._unit.token]
        self._out += [ev.UnblockJoin(token) for token in tokens if token is not None]
        self._without_orders()
        self._set_copies()

    def _without_orders(self) -> None:
        """Drop all orders."""
        self._end_unit()
        self.generation, self._orders = -1, Assignment()
        self._join = self._follow_up_at_ms = self._confirm_at_ms = None
        self._owes_rejoin = self._described = self._migrating = False

    def _describe(self) -> None:
        """Take note that the group is about to know what ``view`` says."""
        self._let_go_of_overdue()
        self.followed.reported()
        self._known = self._described = True
        self._leaving_reported = self.leaving is not None
        self._descriptions += 1

    def _let_go_of_overdue(self) -> None:
        """Release what is stopped: its hold has run out, and its last commit may have arrived (M6).

        Said to be active it might be resumed here, while the member that saw the mark runs it.
        """
        self._join = None  # a join that was announced goes out as well
        if (unit := self._unit) is not None and self._stages(TaskStage.STOPPED):
            self._end_unit()
            for task in unit.tasks:
                self._release(task, unit.marks.get(task, ""))

    def view(self, dormant: Mapping[TaskId, int | None]) -> dict[TaskId, Copy]:
        """Describe our tasks for a JoinGroup; ``dormant`` is state on disk, with its lag."""
        copies = {task: Copy(Role.DORMANT, lag=lag) for task, lag in dormant.items()}
        copies |= {task: record.described() for task, record in self.records.items()}
        return dict(sorted(copies.items()))

    def _join_due(self, event: ev.JoinSoon, now_ms: int) -> None:
        """A JoinGroup waits for us to give up what is given up at joins (L7), or all (F2).

        If it went out since, no member would hear of what was given up now.
        """
        if event.generation != self.generation or self._described:
            self._out.append(ev.UnblockJoin(event.token))
            return
        if self._unit is not None and not self._stages(TaskStage.STOPPED):
            self._end_unit()  # it was only asked for, and cannot be had with a join due (M5)
            self._retry_at_ms = now_ms + self.rules.retry_ms
        self._join, self._migrating = event.token, event.migration
        self._proceed(now_ms)

    def _join_blocked(self, token: int, granted: bool, now_ms: int) -> None:
        """Take the answer whether the unit may begin: no JoinGroup until it is over (M2)."""
        unit = self._unit
        if unit is None or unit.token != token:
            if granted:  # an assignment has replaced the order meanwhile
                self._out.append(ev.UnblockJoin(token))
            return
        if granted:
            self._stop(unit)
        else:  # a join is due: the leader will order again (M5); or there is no coordinator now
            self._end_unit()
            self._retry_at_ms = now_ms + self.rules.retry_ms
            self._proceed(now_ms)

    def _committed(self, token: int, outcome: ev.CommitOutcome, now_ms: int) -> None:
        """Take the outcome of the last commit of a unit; a refusal ends the worker instead.

        Where a mark of unknown outcome was not accepted, the next plan gives its task away (L2).
        """
        unit = self._unit
        if unit is None or unit.token != token:
            return
        self._end_unit()
        for task in unit.tasks:
            if unit.for_migration and outcome is ev.CommitOutcome.ACCEPTED:
                self.records[task].move_to(TaskStage.HELD)
            elif unit.for_migration:
                self._close(task)
            elif outcome in (ev.CommitOutcome.ACCEPTED, ev.CommitOutcome.UNKNOWN):
                self._release(task, unit.marks.get(task, ""), surrendered=unit.for_join)
            elif outcome is ev.CommitOutcome.LOST:  # we are leaving, or ``Lost`` is about to follow
                self._close(task)
            else:  # nothing happened
                self.records[task].move_to(TaskStage.RUNNING)
                self._out.append(te.ResumeTask(task))
        self._retry_at_ms = now_ms + self.rules.retry_ms
        if unit.for_migration:
            self._go_over(token)
            return
        self._end_orders(now_ms)  # before the hold ends, so that one join does for both
        self._out.append(ev.UnblockJoin(token))
        self._proceed(now_ms)

    # -- the worker ----------------------------------------------------------------------------

    def _read(self, task: TaskId, positions: Positions | None, now_ms: int) -> None:
        """Take what a poll found; None where it found nothing stable."""
        claim = self.records.get(task)
        if claim is None or not claim.looks:
            return
        claim.looked(positions, now_ms, self.rules)
        if positions is not None and claim.reclaims:
            claim.reclaims = False  # also by a late answer: that bears an older epoch
            self._out.append(te.Reclaim(task, positions))
        elif positions is not None and positions.mark_for(self._member_id, claim.generation):
            claim.move_to(TaskStage.OPENING)
            self.followed.drop(task)
            self._set_copies()
            self._out.append(te.Activate(task, positions))

    def _running(self, task: TaskId) -> None:
        """The task was restored and processes."""
        claim = self.records.get(task)
        if claim is not None and claim.stage is TaskStage.OPENING:
            claim.move_to(TaskStage.RUNNING)

    def _reopening(self, task: TaskId, now_ms: int) -> None:
        """A running task was closed, and is brought up here once more: it claims again (M4)."""
        claim = self.records.get(task)
        if claim is None or claim.stage is not TaskStage.RUNNING:
            return
        self._end(task)
        self._enter(task, TaskStage.OPENING)
        if self._unit is not None and task in self._unit.tasks:  # a hold was asked for, no more
            self._end_unit()
            self._retry_at_ms = now_ms + self.rules.retry_ms

    def _claimed(self, task: TaskId, now_ms: int) -> None:
        """The first commit of the active period was accepted."""
        claim = self.records.get(task)
        if claim is None or claim.stage not in OURS or claim.claimed:
            return
        claim.claimed, orders = True, self._orders
        mine = orders.pending.keys() & self.claims.keys() if task in orders.pending else ()
        if mine and all(self.records[one].claimed for one in mine):
            self._all_taken_over()
        if task in orders.release or task in orders.revoke:
            self._proceed(now_ms)

    def _all_taken_over(self) -> None:
        if self.rules.standbys:
            # The copy that became active is missing, and the old owner's is warm.
            self._rejoin("a standby is to be placed after a hand-over")
        elif self.rules.static:
            # A restart would be handed orders that are long carried out, and cost a rebalance then.
            self._rejoin("all hand-overs to a static member are over")

    def _failed(self, task: TaskId, reason: str) -> None:
        """The task cannot be opened here: join without the claim (M8)."""
        claim = self.records.get(task)
        if claim is not None and claim.stage in (TaskStage.OPENING, TaskStage.WAITING):
            self.followed.drop(task)
            self._close(task)
            self._set_copies()
            self._rejoin(f"cannot take over {task}: {reason}")

    def _set_leaving(self, leaving: Leaving | None) -> None:
        if leaving != self.leaving:
            self.leaving, self._confirm_at_ms = leaving, None
            if self._known or self.generation >= 0:
                self._rejoin("stays" if leaving is None else "leaving")

    def _tick(self, now_ms: int) -> None:
        """Do what is due; see ``due_ms``."""
        if self._stages(TaskStage.WAITING, TaskStage.OPENING):
            self.followed.put_off(now_ms)
        speak_at_ms = self._may_report_at_ms()
        if speak_at_ms is not None and speak_at_ms <= now_ms and (news := self.followed.report()):
            self._rejoin(news)
        if self._follow_up_at_ms is not None and self._follow_up_at_ms <= now_ms:
            self._follow_up_at_ms = None
            self._rejoin("the plan's next part is due")
        waiting = sorted(self._stages(TaskStage.WAITING))
        late = [t for t in waiting if now_ms - self.records[t].since_ms >= self.rules.timeout_ms]
        for task in late:
            self._end(task)
            self._rejoin(f"the hand-over of {task} does not proceed")
        self._proceed(now_ms)

    def _may_report_at_ms(self) -> int | None:
        """The time to report ready copies; None while that would overtake an assignment.

        An owner that has stopped for us would have to wait for yet another assignment. Meanwhile
        other copies wait too, so for a moment afterwards it is not known how far they are.
        """
        overtakes = self._described or self._stages(TaskStage.WAITING, TaskStage.OPENING)
        return None if overtakes else self.followed.report_at_ms

    def due_ms(self) -> int | None:
        """The time by which a ``Tick`` has something to do."""
        times = [self._may_report_at_ms(), self._follow_up_at_ms]
        for claim in self.records.values():
            if claim.stage is TaskStage.WAITING:
                times.append(claim.since_ms + self.rules.timeout_ms)
            times.append(claim.look_at_ms)
        if self._unit is None and self._ordered():
            times.append(self._retry_at_ms)
        if not self._described:
            times.append(self._confirm_at_ms)
        return min((at for at in times if at is not None), default=None)

    @property
    def busy(self) -> bool:
        """True if something is being carried out that the group is waiting for, or will hear of."""
        going = self._stages(
            TaskStage.OPENING, TaskStage.STOPPED, TaskStage.WAITING, TaskStage.HELD
        )
        return bool(going or self._unit or self._hurries)

    def urgent(self, now_ms: int) -> bool:
        """True if another member waits for us right now, or will in a moment."""
        going = self.near(now_ms) or self._stages(TaskStage.STOPPED, TaskStage.HELD)
        return bool(going or self._hurries)

    @property
    def _hurries(self) -> bool:
        unclaimed = any(not self.records[task].claimed for task in self._stages(TaskStage.RUNNING))
        waits = self._join is not None or self.followed.report_at_ms is not None
        return unclaimed or waits or self._owes_rejoin

    def near(self, now_ms: int) -> frozenset[TaskId]:
        """Tasks that no member runs until we do, or soon."""
        return frozenset(task for task, one in self.records.items() if one.is_near(now_ms))

    @property
    def confirming(self) -> bool:
        """True if all is handed over, and the group is about to be asked to confirm it."""
        return self._confirm_at_ms is not None

    # -- inside --------------------------------------------------------------------------------

    def _rejoin(self, reason: str) -> None:
        self._out.append(ev.Rejoin(reason, self._descriptions))

    def _stages(self, *stages: TaskStage) -> set[TaskId]:
        return {task for task, record in self.records.items() if record.stage in stages}

    def _ordered(self) -> tuple[TaskId, ...]:
        """Tasks to give up that can be: they run, and their claim was accepted (M4)."""
        wanted = self._orders.release.keys() | self._orders.revoke
        ready = (t for t in self._stages(TaskStage.RUNNING) & wanted if self.records[t].claimed)
        return tuple(sorted(ready))

    def _proceed(self, now_ms: int) -> None:
        """Take every step that can be taken now."""
        self._set_copies()
        for task in sorted(self._stages(TaskStage.OPENING) & self._orders.revoke):
            self._release(task)  # it never ran, so there is nothing to commit
        self._poll(now_ms)
        if self._join is not None and self._migrating:
            self._stop_for_migration()
        elif self._unit is None and self._join is not None:
            self._give_up_for_join()
        if self._unit is None and now_ms >= self._retry_at_ms and (tasks := self._ordered()):
            self._tokens += 1
            marks = {task: to for task in tasks if (to := self._orders.release.get(task))}
            self._unit = Unit(self._tokens, self.generation, tasks, marks)
            self._out.append(te.GiveUp(self._unit))
        self._end_orders(now_ms)

    def _set_copies(self) -> None:
        wanted = self.followed.read_beside(self._stages(*OURS))
        if wanted is not None:
            self._out.append(wanted)

    def _poll(self, now_ms: int) -> None:
        times = {t: at for t, one in self.records.items() if (at := one.look_at_ms) is not None}
        if all(at_ms > now_ms for at_ms in times.values()):
            return
        for task in times:  # those that are not due yet too: it is one request
            self.records[task].polling = True
        self._out.append(te.PollMarks(tuple(sorted(times))))

    def _stop(self, unit: Unit) -> None:
        for task in unit.tasks:
            self.records[task].move_to(TaskStage.STOPPED)
        self._out += [te.Stop(unit.tasks), te.CommitLast(unit)]

    def _end_unit(self) -> None:
        """End the unit, if there is one: the worker carries out no more of it."""
        if self._unit is not None:
            self._unit.over, self._unit = True, None

    def _give_up_for_join(self) -> None:
        """Begin the unit of an announced join, or let the join go on if there is nothing to do."""
        assert self._join is not None
        token, self._join = self._join, None
        mine = self._stages(TaskStage.OPENING, TaskStage.RUNNING)
        if not self.rules.stops_at_joins:
            mine &= self._orders.being_learned if self.rules.gives_up_at_joins else frozenset()
        for task in sorted(mine & self._stages(TaskStage.OPENING)):
            self._release(task, surrendered=True)
        tasks = tuple(sorted(mine & self._stages(TaskStage.RUNNING)))
        if tasks:
            self._unit = Unit(token, self.generation, tasks, for_join=True)
            self._stop(self._unit)
        else:
            self._out.append(ev.UnblockJoin(token))

    def _stop_for_migration(self) -> None:
        """Stop all; keep what runs, if its last commit is accepted (F2)."""
        assert self._join is not None
        token, self._join = self._join, None
        kept = self._stages(TaskStage.RUNNING)
        for task in sorted(self.claims.keys() - kept):
            if self.records[task].stage in OURS:
                self._close(task)
            else:
                self._end(task)
        if kept:
            self._unit = Unit(token, self.generation, tuple(sorted(kept)), for_migration=True)
            self._stop(self._unit)
        else:
            self._go_over(token)

    def _go_over(self, token: int) -> None:
        """Let the membership go; until it is in the other group we get no assignment."""
        self._without_orders()
        self._out.append(ev.UnblockJoin(token))

    def _end_orders(self, now_ms: int) -> None:
        """Tell the group when all is given up that was to be, or leave if that was the last."""
        orders, ours = self._orders, self._stages(*OURS)
        if self._left or self._unit is not None or self.generation < 0:
            return
        if ours & (orders.revoke | orders.release.keys()):
            return
        idle = not ours and not self._stages(TaskStage.WAITING)
        if orders.leave and idle:
            self._leave("its time to leave was up")
        elif self._owes_rejoin:
            self._owes_rejoin = False
            self._rejoin("gave up the tasks it was asked to")
        elif self._leaving_reported and self.leaving is not None and idle:
            if self._described:
                return  # a leader finishes its last assignment; ours may not be the last word
            if not (orders.active or orders.release or orders.revoke or orders.pending):
                self._leave("drained")
            elif orders.release:
                self._ask_to_confirm(now_ms, "gave up its last task")
        elif orders.release and self.rules.static and not (self.leaving or self._described):
            self._ask_to_confirm(now_ms, "a static member gave up what it was to")

    def _ask_to_confirm(self, now_ms: int, reason: str) -> None:
        """Have an assignment confirm that no more is expected; it is what a restart is handed.

        Not at once: others leave with us, and a rebalance would fall amid their hand-overs.
        """
        if self._asked_to_confirm:
            return
        if self._confirm_at_ms is None:
            self._confirm_at_ms = now_ms + self.rules.confirm_delay_ms
        if self._confirm_at_ms <= now_ms:
            self._asked_to_confirm, self._confirm_at_ms = True, None
            self._rejoin(reason)

    def _leave(self, reason: str) -> None:
        self._left = True
        self._out.append(te.LeaveForGood(reason))

    def check_invariants(self) -> None:
        """Assert what always holds between two calls; for tests and simulations."""
        unit = () if self._unit is None else self._unit.tasks
        for record in self.records.values():
            record.check_invariants()
        for task, claim in self.claims.items():
            held = claim.stage is TaskStage.HELD
            assert held or claim.generation <= self.generation, (task, claim, self.generation)
            stopped = claim.stage is TaskStage.STOPPED
            assert task in unit or not stopped, (task, "stopped for nothing")
            if claim.stage is TaskStage.WAITING:
                assert claim.generation == self.generation, (task, "an order that was replaced")
        member = self.generation >= 0
        assert member or self.claims.keys() == self._stages(TaskStage.HELD), "a claim of no member"
        read = self.followed.read
        assert not self._stages(*OURS) & (read.learner | read.standby), read
        assert all(task in self.claims for task in unit), unit
        if self._unit is not None and not (self._unit.for_join or self._unit.for_migration):
            assert all(self.claims[task].claimed for task in unit), (unit, "given up unclaimed")
