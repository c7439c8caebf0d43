"""Carries out what the task manager decides, on the stream thread.

The manager (``tasks.manager``) decides; this module acts, and reports the results to it.
Everything that touches tasks goes through here or through the worker's own loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from streamlet.clock import Clock
from streamlet.coordinator import events as ev
from streamlet.coordinator.commit_metadata import Positions
from streamlet.coordinator.session import GroupSession
from streamlet.errors import TaskMigratedError
from streamlet.logs import get_logger
from streamlet.tasks import task_events as te
from streamlet.tasks.activation import Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.commit_loop import Precopy
from streamlet.tasks.commit_share import Settled
from streamlet.tasks.meters import Meters
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.task_record import TaskStage, UnitStage, UnitUnderWay, mark_until_ms
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.types import TaskId, TopicPartition

log = get_logger(__name__)

Inputs: TypeAlias = dict[TaskId, tuple[TopicPartition, ...]]


@attrs.define(eq=False, slots=False)
class TaskActions:
    """Carries out the task manager's actions.

    Args:
        rebalance_events: the manager and the news.
        group: our membership.
        registry: the active tasks.
        activation: brings tasks up.
        updater: keeps copies and restores.
        commit: the worker's commits.
        clock: the time.
        settled: called with each answered commit.
        meters: counts moves.
        precopy: the usual commits before the last one.
    """

    _rebalance_events: RebalanceEvents
    _group: GroupSession
    _registry: TaskRegistry
    _activation: Activation
    _updater: StateUpdater
    _commit: AtLeastOnceCommit
    _clock: Clock
    _settled: Callable[[Settled], None]
    _meters: Meters
    precopy: Precopy
    #: Tasks whose committed positions were asked for, by token, with the inputs they had then.
    _fetches: dict[int, Inputs] = attrs.field(factory=dict, init=False)
    _fetch_token: int = attrs.field(default=0, init=False)
    #: The unit that is carried out.
    unit: UnitUnderWay = attrs.field(factory=UnitUnderWay, init=False)
    #: Whether something is open that others wait for; right now, or in a moment: poll shorter.
    busy: bool = attrs.field(default=False, init=False)
    urgent: bool = attrs.field(default=False, init=False)
    #: Whether no member runs one of our tasks until we begin it, or will in a moment.
    awaited: bool = attrs.field(default=False, init=False)
    #: Until when the mark that one of them waits for is about to come, ms of the clock.
    mark_until_ms: int = attrs.field(default=0, init=False)
    #: The manager wants us to leave for good, for this reason.
    leaving: str | None = attrs.field(default=None, init=False)
    #: The copies that the manager asked for last.
    _asked: frozenset[TaskId] = attrs.field(factory=frozenset, init=False)

    def take(self) -> None:
        """Take what the control thread and the state updater left, and act on it.

        Raises:
            StreamletError: the membership is over, or the coordinator refused a commit for good.
        """
        now = self._clock.now_ms()
        if not self._rebalance_events.rests(now):
            self._take_news(now)
        if not self._commit.sent:  # else a task could begin before that commit
            self._activation.settled()
        ready = list[ActiveTask]()
        for news in self._updater.take():
            if not isinstance(news, te.Restored):
                self.run(ready)  # what follows from other news may be to stop them
                ready.clear()
                self._copy_news(news)
            elif (active := self._activation.restored(news)) is not None:
                self._registry.add(active)
                ready.append(active)
        self.run(ready)

    def _take_news(self, now: int) -> None:
        seen, applied = dict[TaskId, Positions](), self.generation
        with self._rebalance_events.news() as (events, assigned):
            for event in events:
                self._take(event, seen)
            if assigned is not None:
                self._rebalance_events.handle(assigned)
            # After what was just assigned.
            self._rebalance_events.handle(*te.of_kind(ev.JoinSoon, events), ev.Tick())
            with self._rebalance_events.manager() as manager:
                self.busy = manager.busy
                self.urgent = self.busy and manager.urgent(now)
                awaited = manager.near(now)
                self.mark_until_ms = mark_until_ms(manager.records.values())
                self._rebalance_events.may_rest(manager)
            self.awaited = bool(awaited)
        if assigned is not None and assigned.generation != applied:
            orders = assigned.assignment
            self.precopy.ordered(orders.release, orders.release_delay_ms, now)
            if not orders.error:
                self._activation.edges.agreement.take(orders.prefixes, orders.held)
                self._commit.texts.compact = orders.compact
            self._meters.rebalanced()
            log.info("generation %d: %s", assigned.generation, orders.summary())
        if lost := bool(te.of_kind(ev.Lost, events)):
            self._commit.forget_queued()
        for commit in te.of_kind(ev.CommitDone, events):
            self._commit_done(commit, lost=lost)
        self._perform(self._rebalance_events.actions())  # not taken before: a loss may follow
        if te.of_kind(ev.JoinSoon, events):
            self.precopy.end()  # the join may wait for that unit, and the group for the join
        self._read_ahead(awaited, seen)
        self._updater.prefer(awaited)
        for end in te.of_kind(ev.Failed, events):
            raise end.error

    @property
    def generation(self) -> int:
        """Generation of the assignment that we act on; -1: there is none."""
        return self._rebalance_events.generation

    def _take(self, event: ev.SessionEvent, seen: dict[TaskId, Positions]) -> None:
        match event:
            case ev.CommitDone() | ev.JoinSoon() | ev.Failed() | ev.Left():
                pass  # later in ``take``, if anything is to be done
            case ev.Lost(reason=reason):
                log.warning("lost all tasks: %s", reason)
                self._meters.lost += 1  # the manager knows, by ``RebalanceEvents.offer``
            case ev.JoinBlocked():
                self._rebalance_events.handle(event)
            case ev.FetchDone():
                seen |= self._fetched(event)
            case _:
                raise AssertionError(f"unexpected event {event}")

    def _fetched(self, event: ev.FetchDone) -> dict[TaskId, Positions]:
        """Tell the manager; return what is known now of tasks that are not open here.

        The consumer is at the positions of those that are, or beyond.
        """
        found = {}
        good = event.outcome is ev.FetchOutcome.FETCHED
        for task, inputs in self._fetches.pop(event.token, {}).items():
            positions = Positions.of(inputs, event.committed) if good else None
            self._rebalance_events.handle(te.PositionsRead(task, positions))
            if positions is not None and task not in self._registry.tasks:
                found[task] = positions
        return found

    def _read_ahead(self, awaited: frozenset[TaskId], seen: Mapping[TaskId, Positions]) -> None:
        """Fetch the input of tasks that no other member will process, as far as it is known."""
        ahead = self._registry.ahead
        ahead.only(awaited)
        for task in sorted(awaited & seen.keys()):
            ahead.read(task, seen[task].offsets)

    def _commit_done(self, event: ev.CommitDone, *, lost: bool) -> None:
        """Take what became of a commit; ``lost``: of tasks that are not ours any more."""
        settled = self._commit.done(event.token, event.outcome, event.code, event.gone)
        if settled is None:
            return
        self._settled(settled)
        events: list[te.TaskEvent] = []
        if settled.outcome is ev.CommitOutcome.ACCEPTED and not lost:
            events += [te.TaskClaimed(part.active.task) for part in settled.accepted]
            to_go = () if self.unit.ordered is None else self.unit.ordered.tasks
            self.precopy.committed(settled.entries_of(to_go), self._clock.now_ms())
        if settled.of_unit is not None:
            events.append(settled.of_unit)
        self._report(*events)
        for active in settled.outdated:
            if active.stage is TaskStage.RUNNING:
                self.restart(active)

    def _copy_news(self, news: te.CopyLag | te.CopyFailed | te.RestoreFailed) -> None:
        match news:
            case te.CopyLag():
                self._report(news)
            case te.CopyFailed():
                self._activation.copy_failed(news)
            case te.RestoreFailed():
                self._activation.restore_failed(news)

    def run(self, ready: Sequence[ActiveTask]) -> None:
        """Have tasks of the registry that are ready process, and say so."""
        if ready:
            self._go_on_with(ready)
            self._report()

    def restart(self, active: ActiveTask) -> None:
        """Close a running task and bring it up again from its last commit; the others go on."""
        task = active.task
        self._rebalance_events.handle(te.TaskReopening(task))
        if self.unit.ordered is None:
            self.precopy.end()
        self._registry.drop(active)
        self._activation.want_again(task)

    def follow_inputs(self, topic_ids: Mapping[str, str]) -> None:
        """Bring up again what reads other partitions by now, or a topic that was made again."""
        for active in self._registry.of_stage(TaskStage.RUNNING):
            active.compare(topic_ids)
            if active.inputs != self._activation.targets.inputs(active.task):
                log.info("task %s reads other partitions from now on", active.task)
                self.restart(active)

    def give_back(self, tasks: Mapping[TaskId, str]) -> None:
        """Join without these tasks, which cannot be taken over here, for these reasons."""
        if tasks:
            self._report(*(te.TaskFailed(task, reason) for task, reason in tasks.items()))

    def _go_on_with(self, actives: Sequence[ActiveTask]) -> None:
        self._registry.resume(actives)
        for active in actives:
            self._meters.running(active.task)
        self._rebalance_events.handle(*(te.TaskRunning(active.task) for active in actives))

    def take_answers(self) -> None:
        """Take answers to commits: everything is stopped, and what is given up is closed (M6).

        Raises:
            TaskMigratedError: the tasks are lost.
        """
        for event in self._rebalance_events.answers():
            if isinstance(event, (ev.JoinSoon, ev.JoinBlocked)):
                self._group.want(ev.UnblockJoin(event.token))  # no further unit is begun
            elif not isinstance(event, ev.CommitDone):
                raise TaskMigratedError("the tasks were lost while they were given up")
            elif settled := self._commit.done(event.token, event.outcome, event.code, event.gone):
                self._settled(settled)
                for active in settled.without_input:
                    self._drop(active)
                if settled.of_unit is not None:
                    self._rebalance_events.handle(settled.of_unit)
        over = self.unit.over
        for action in self._rebalance_events.actions():
            if isinstance(action, (te.Close, ev.UnblockJoin)):
                self._perform_one(action, frozenset())
        if over:
            self.unit.one = None

    def go_on(self) -> None:
        """Ask for a hold, or commit stopped tasks for the last time; no commit is under way.

        Raises:
            TaskMigratedError: our membership is gone.
            DeliveryError: something was not delivered.
            BrokerError: the broker does not answer just now; go on with the commits' ``begin``.
        """
        assert not self._commit.under_way
        unit = self.unit.ordered
        if unit is not None and not self._registry.any_delays_stop(unit.tasks):
            unit.move_to(UnitStage.ASKED)
            self._group.want(ev.BlockJoin(unit.token, unit.generation))
        if (unit := self.unit.stopped) is not None:
            tasks = [self._registry.tasks[task] for task in unit.tasks]
            if not self._commit.begin_claims(unit, tasks):
                self._commit.begin_last(unit, tasks)

    def to_commit(self) -> list[ActiveTask]:
        """The tasks that a commit may cover; others may have committed those held open (F4)."""
        with self._rebalance_events.manager() as manager:
            known = manager.records.items()
            held = {task for task, one in known if one.reclaims or one.stage is TaskStage.HELD}
        return [active for task, active in self._registry.tasks.items() if task not in held]

    def drop_all(self) -> None:
        """Close everything, writing nothing."""
        self._commit.abort()
        self._registry.ahead.only(())  # a batch of it may be lost with the round that failed
        for task in self._activation.tasks:
            self._activation.cancel(task)
        for active in list(self._registry.tasks.values()):
            self._drop(active)

    def lose_all(self) -> None:
        """Like ``drop_all``; also claims nothing any more, and has nothing more written."""
        self._commit.forget_queued()
        self._rebalance_events.handle(ev.Lost("they were given up here"))
        self.drop_all()
        self._perform(self._rebalance_events.actions())
        self._set_copies(frozenset())

    # Actions.

    def _report(self, *events: te.TaskEvent) -> None:
        """Report an event to the manager, and carry out the actions that follow."""
        self._rebalance_events.handle(*events)
        self._perform(self._rebalance_events.actions())

    def _perform(self, actions: Sequence[te.Action]) -> None:
        """Carry out actions in the order they were decided in, then what follows from them."""
        going = True
        while going:
            activating = frozenset(one.task for one in actions if isinstance(one, te.Activate))
            for action in actions:
                self._perform_one(action, activating)
            over = self.unit.over  # asked before what follows from it is taken
            going = bool(actions := self._rebalance_events.actions())
        if over:
            self.unit.one = None
            self.precopy.end()

    def _perform_one(self, action: te.Action, activating: frozenset[TaskId]) -> None:
        log.debug("%s", action)
        match action:
            case te.Activate(task=task, positions=positions):
                self._meters.activating(task, marked=positions is not None)
                self._activation.want(task, positions)
            case te.Reclaim(task=task, positions=positions):
                self._reclaim(self._registry.tasks[task], positions)
            case te.Stop(tasks=tasks):
                self._meters.stopping(tasks)
                self._registry.stop(self._registry.tasks[task] for task in tasks)
            case te.ResumeTask(task=task):
                active = self._registry.tasks[task]
                if active.stage is TaskStage.STOPPED:
                    self._registry.resume([active])
            case te.Close(task=task):
                self._close(task)
                self._set_copies(activating)  # it may have been kept to be promoted
            case te.SetCopies(learner=learner, standby=standby):
                self._asked = learner | standby
                self._set_copies(activating)
            case te.GiveUp(unit=unit):
                self.unit.one, now = unit, self._clock.now_ms()
                self.precopy.begin(now, self.precopy.wait_ms(unit.tasks, now))
            case ev.UnblockJoin():
                self._group.want(action)
            case te.CommitLast(unit=unit):
                unit.move_to(UnitStage.STOPPED)
                self.unit.one = unit
            case te.PollMarks(tasks=tasks):
                inputs = self._activation.targets.inputs
                self._fetch({task: inputs(task) for task in tasks})
            case ev.Rejoin(reason=reason):
                log.info("rejoining: %s", reason)
                self._group.want(action)
            case te.LeaveForGood(reason=reason):
                self.leaving = reason

    def _reclaim(self, active: ActiveTask, positions: Positions) -> None:
        """Process a task again that was held open, or start it again (F4)."""
        if active.may_begin_again(positions):
            active.begin_again()
            self._go_on_with([active])
        else:
            log.info("task %s begins at its last commit, which may be that of others", active.task)
            self._drop(active)
            self._activation.want(active.task)

    def _close(self, task: TaskId) -> None:
        active = self._registry.tasks.get(task)
        if active is None:
            self._meters.forget(task)
            self._activation.cancel(task)
        else:
            self._drop(active)

    def _drop(self, active: ActiveTask) -> None:
        """Close a task; what it leaves on disk was written at its last commit, so it is fresh."""
        self._registry.drop(active)
        if active.subtopology.stateful and not active.opened.damaged:
            self._rebalance_events.add_dormant({active.task: 0})

    def _set_copies(self, activating: frozenset[TaskId]) -> None:
        """Keep the copies that were asked for, and those about to be promoted until they are."""
        needed = (activating | self._activation.tasks) & self._updater.wanted
        self._updater.set(self._asked | needed)

    def _fetch(self, inputs: Inputs) -> None:
        self._fetch_token += 1
        self._fetches[self._fetch_token] = inputs
        wanted = tuple(tp for partitions in inputs.values() for tp in partitions)
        self._group.want(ev.FetchWanted(self._fetch_token, wanted))
