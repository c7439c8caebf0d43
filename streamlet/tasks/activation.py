"""Brings tasks up: from the order to run one to a task that may process.

Each step relies on the one before: read the committed positions, read where the changelogs end
*after* that, restore up to there counting only what the commit contains, then begin a new epoch at
the committed offsets. A mark says positions and ends itself. A task with a warm copy on this worker
is promoted by the thread that keeps it; any other is restored by it, too (``tasks.state_updater``).

Before that its positions, logs and local state are compared (``mismatch``). What disagrees is read
once more, since another owner may have committed meanwhile. Then it is decided what to do; a task
that another member may have the state of is given back first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.coordinator.commit_metadata import Positions
from streamlet.errors import StateError, StateLockedError, StateMismatchError, StreamletError
from streamlet.kafka.limits import largest_record
from streamlet.logs import get_logger
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.edges.start import Start
from streamlet.processing.task import Task
from streamlet.state.entries import CommitEntry
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.mismatch import (
    MOST_OFFERS,
    Mismatch,
    MismatchKind,
    chosen,
    copy_may_be_promoted,
    decided,
    judge,
    lacks,
    needs_entry,
    set_back,
    state_entry,
    with_entry,
)
from streamlet.tasks.missing_topics import MissingTopics
from streamlet.tasks.open_task import OpenTask, closed_if_refused
from streamlet.tasks.opening import Troubles
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.target import Target
from streamlet.tasks.targets import TargetAnswer, Targets
from streamlet.tasks.task_events import CopyFailed, Restored, RestoreFailed
from streamlet.tasks.task_record import OpeningStage
from streamlet.topology.graph import Topology
from streamlet.types import NO_STATE, TaskId

log = get_logger(__name__)

#: How long one step opens stores at most, but one, while other tasks run, ns. A database takes some
#: milliseconds: of a member that failed there may be a hundred.
OPENING_NS = 20_000_000
#: How often a folder that another worker still holds is tried again.
LOCKED_RETRY_MS = 20
#: Pause before brokers that did not answer are asked once more.
ASK_AGAIN_MS = 500
_GIVEN_BACK = "task %s is given back%s, another member may have its state: %s"
_FILLED = "task %s: %s; it is filled from the local state, which is that of the commit"


@attrs.define(eq=False, slots=False)
class Activation:
    """Tasks on their way up; it owns them until they are ready.

    Args:
        topology: what the tasks do.
        targets: finds what tasks begin with.
        open_stores: opens the stores of a task, as ``opening.TaskOpener``.
        updater: keeps copies and restores, on threads of its own.
        settings: the application's.
        edges: knows the repartition topics that are exact.
        new_task: makes what processes the records of an open task, see ``Task``.
        limits: bytes that a record may have in topics that take less than the producer.
        clock: for retries.
    """

    topology: Topology
    targets: Targets
    _open_stores: Callable[[TaskId], OpenTask]
    _updater: StateUpdater
    _settings: Settings
    edges: EdgePlan
    _new_task: Callable[..., Task]
    _clock: Clock
    _limits: Mapping[str, int] = attrs.field(factory=dict)
    _ask_at_ms: int = attrs.field(default=0, init=False)
    _retry_ms: int = attrs.field(default=0, init=False)
    _coming: dict[TaskId, ActiveTask] = attrs.field(factory=dict, init=False)
    troubles: Troubles = attrs.field(factory=Troubles, init=False)
    missing: MissingTopics = attrs.field(factory=MissingTopics, init=False)

    @property
    def tasks(self) -> frozenset[TaskId]:
        """The tasks on their way."""
        return frozenset(self._coming)

    @property
    def idle(self) -> bool:
        """True if no task is being brought up."""
        return not self._coming

    def want(self, task: TaskId, positions: Positions | None = None) -> None:
        """Bring this task up; ``positions`` are those of a mark, None: read them."""
        self._add(ActiveTask(task, positions))

    def want_again(self, task: TaskId) -> None:
        """Bring up a task that ran here a moment ago, not before ``settled``."""
        self._add(ActiveTask(task, opening=OpeningStage.SETTLING))

    def _add(self, coming: ActiveTask) -> None:
        assert coming.task not in self._coming, f"{coming.task} is on its way already"
        self._coming[coming.task] = coming

    def settled(self) -> None:
        """Begin with tasks that ran here before: no commit is on its way."""
        for coming in self._at(OpeningStage.SETTLING):
            coming.come_to(OpeningStage.CREATED)

    def put_off(self, task: TaskId, reason: str) -> None:
        """Open this task not before a pause: its stores failed, and may do so again."""
        self.troubles.of(task).put_off(task, reason, self._clock.now_ms())

    def cancel(self, task: TaskId) -> None:
        """Bring it up no more; what was opened is closed, as far as it was written."""
        self.troubles.cancel(task)
        coming = self._coming.pop(task, None)
        if coming is None:
            return
        if coming.opening in (OpeningStage.RESTORING, OpeningStage.PROMOTING):
            self._updater.cancel(task)
        coming.come_to(OpeningStage.CANCELLED)  # stores on their way are closed when they come

    def step(self) -> list[ActiveTask]:
        """Go on; tasks without stores that may process from now on."""
        if (now := self._clock.now_ms()) >= self._ask_at_ms:
            self._aim()
        self._take_answers()
        return self._open() if now >= self._retry_ms else []

    def given_back(self) -> dict[TaskId, str]:
        """Tasks that another member may have state for, with the reasons; they are not begun."""
        offers = {one.task: one.offer for one in self._at(OpeningStage.DECIDING) if one.offer}
        now = self._clock.now_ms()
        tasks = {task: reason for task, (at_ms, reason) in offers.items() if at_ms <= now}
        for task in tasks:
            self._coming.pop(task).come_to(OpeningStage.CANCELLED)
        return tasks

    def stand_still(self, since_ms: int) -> dict[TaskId, str]:
        """Tasks whose stores have been unusable since a time, with the reasons."""
        tasks = [coming.task for coming in self._at(OpeningStage.UNLOCKING)]
        return {task: why for task in tasks if (why := self.troubles.of(task).lasting(since_ms))}

    def check_invariants(self) -> None:
        """Raise AssertionError where a stage and what is known of a task contradict each other."""
        for coming in self._coming.values():
            coming.check_invariants()

    def _at(self, stage: OpeningStage) -> list[ActiveTask]:
        """The tasks of a stage, in order."""
        return [one for _, one in sorted(self._coming.items()) if one.opening is stage]

    def _disagree(self, coming: ActiveTask, opened: OpenTask, mismatch: Mismatch) -> None:
        """Leave the state as it is; read everything once more before the policy decides."""
        local = state_entry(opened.state)
        opened.close()
        troubles = self.troubles.of(coming.task)
        before, troubles.found = troubles.found, mismatch.kind
        if before is mismatch.kind:
            self._decide(coming, mismatch, local)
        else:  # a commit meanwhile may explain it
            log.info(
                "task %s: state and positions are compared again: %s", coming.task, mismatch.reason
            )
            coming.start_over()

    def _decide(self, coming: ActiveTask, mismatch: Mismatch, local: CommitEntry | None) -> None:
        """Offer a task to members that may have its state, then do what the policy says.

        Raises:
            PositionsMismatchError: the policy is to stop, or cannot be carried out.
        """
        task, target = coming.task, coming.known()
        troubles = self.troubles.of(task)
        if mismatch.kind is MismatchKind.CHANGELOG and troubles.offers < MOST_OFFERS:
            wait_ms = self._settings.session_timeout_ms if troubles.offers else 0
            troubles.offers += 1
            later = f" in {wait_ms} ms" if wait_ms else ""
            log.warning(_GIVEN_BACK, task, later, mismatch.reason)
            coming.offer = self._clock.now_ms() + wait_ms, mismatch.reason
            coming.come_to(OpeningStage.DECIDING)
            return
        application, policy = self.topology.application, self._settings.state_mismatch_policy
        found = decided(policy, application, mismatch, target)
        choose = partial(chosen, application, mismatch, target, local)
        rebuilding = target.metadata is not None and target.metadata.rebuilding
        answer: TargetAnswer = Future()
        if found is None and target.ends and not rebuilding:
            answer = self.targets.search(task, target, choose)
        else:
            answer.set_result({task: found or choose(None)})
        coming.wait_for(answer, OpeningStage.DECIDING)

    def restored(self, event: Restored) -> ActiveTask | None:
        """Take stores that were restored or promoted; the task, if it may process from now on."""
        opened = event.opened
        coming = self._coming.get(opened.task)
        if coming is None or not coming.waits_for(opened):
            # Cancelled meanwhile; if it is wanted again, as of another commit, more is to come.
            opened.close()
            return None
        coming.restoring = None
        with closed_if_refused(opened):
            if opened.beyond is None:
                return self._ready(coming, opened)
            self._disagree(coming, opened, set_back(coming.task, coming.known(), opened.beyond))
        return None

    def copy_failed(self, event: CopyFailed) -> None:
        """Restore a task whose copy cannot be promoted."""
        coming = self._coming.get(event.task)
        if coming is not None and coming.opening is OpeningStage.PROMOTING:
            log.info("task %s is restored without its copy: %s", event.task, event.reason)
            self._begin_here(coming, coming.known())

    def restore_failed(self, event: RestoreFailed) -> None:
        """Open a task once more, after a pause, whose stores failed while it was restored."""
        coming = self._coming.get(event.opened.task)
        if coming is not None and coming.restoring is event.opened:
            coming.restoring = None
            coming.come_to(OpeningStage.UNLOCKING)
            self.put_off(coming.task, event.reason)

    def close(self) -> None:
        """Give everything up."""
        for task in self.tasks:
            self.cancel(task)
        self.targets.close()

    # From where to where.

    def _aim(self) -> None:
        """Find out what tasks begin with: from their marks, or by asking."""
        unmarked = []
        there = self.targets.inputs  # without any the leader is about to see that they are gone
        for coming in [one for one in self._at(OpeningStage.CREATED) if there(one.task)]:
            task, mark = coming.task, coming.mark
            if coming.target is not None:
                self._complete(coming, coming.target)
                continue
            target = None if mark is None else self.targets.marked(task, mark)
            if target is None:
                unmarked.append(coming)
            else:
                self._begin(coming, target)
        if unmarked:
            answer = self.targets.read([coming.task for coming in unmarked])
            for coming in unmarked:
                coming.wait_for(answer, OpeningStage.ASKING)

    def _take_answers(self) -> None:
        """Begin with the tasks whose targets are known; ask again if no broker could answer."""
        for coming in self._at(OpeningStage.ASKING) + self._at(OpeningStage.DECIDING):
            if coming.answer is None or not coming.answer.done():
                continue
            incomplete = coming.target is not None
            try:
                target = coming.answered()
            except StreamletError as error:
                if not self.missing.waits_out(error):
                    raise
                self.troubles.of(coming.task).wait(coming.task, error)
                self._ask_at_ms = self._clock.now_ms() + ASK_AGAIN_MS
            else:
                self.troubles.of(coming.task).waits = None
                (self._begin_here if incomplete else self._begin)(coming, target)

    def _begin(self, coming: ActiveTask, target: Target) -> None:
        if coming.task not in self._updater.wanted:
            self._begin_here(coming, target)
        elif copy_may_be_promoted(target):
            self._promote(coming, target)
        else:
            self._updater.set(self._updater.wanted - {coming.task})
            self._begin_here(coming, target)

    def _promote(self, coming: ActiveTask, target: Target) -> None:
        task, target = coming.task, target.placed()
        lacking = lacks(target)
        if lacking:
            target = attrs.evolve(target, rewrite=frozenset(lacking))
            log.warning("task %s: %s; a copy is asked", task, "; ".join(lacking.values()))
        coming.target = target
        coming.come_to(OpeningStage.PROMOTING)
        self._updater.promote(task, target)

    def _begin_here(self, coming: ActiveTask, target: Target) -> None:
        coming.target = target
        if target.topic_ids is None:  # a mark does not tell them
            self._complete(coming, target)
        else:
            coming.come_to(OpeningStage.UNLOCKING)
            self._retry_ms = 0

    def _complete(self, coming: ActiveTask, target: Target) -> None:
        coming.wait_for(self.targets.complete(coming.task, target), OpeningStage.ASKING)

    # Opening and being ready.

    def _open(self) -> list[ActiveTask]:
        ready, began = [], self._clock.now_ns()
        for coming in self._at(OpeningStage.UNLOCKING):
            task, now = coming.task, self._clock.now_ms()
            self._retry_ms = now + LOCKED_RETRY_MS
            if now < self.troubles.of(task).again_ms:
                continue
            try:
                opened = self._open_stores(task)
            except StateLockedError as error:
                self.troubles.locks.met(task, error, now)
            except StateMismatchError:
                raise
            except StateError as error:
                self.put_off(task, str(error))
            else:
                self.troubles.locks.over(task)
                with closed_if_refused(opened):
                    ready.append(self._begin_restore(coming, opened))
                if self._updater.has_actives and self._clock.now_ns() - began >= OPENING_NS:
                    self._retry_ms = 0
                    break
        return [active for active in ready if active is not None]

    def _begin_restore(self, coming: ActiveTask, opened: OpenTask) -> ActiveTask | None:
        """Restore an open task, if everything agrees; one without stores is ready at once."""
        task, target, state = coming.task, coming.known(), opened.state
        if needs_entry(target, state):
            opened.close()
            answer = self.targets.search(task, target, partial(with_entry, target))
            coming.wait_for(answer, OpeningStage.DECIDING)
            return None
        judged = judge(task, target, state)
        if isinstance(judged, Mismatch):
            self._disagree(coming, opened, judged)
            return None
        for tp in sorted(judged.rewrite - target.rewrite):
            log.warning(_FILLED, task, lacks(target, state)[tp])
        coming.target = judged = judged.placed()
        coming.come_to(OpeningStage.RESTORING)
        if state.stores:
            coming.restoring = opened
            self._updater.restore(opened, judged)
            return None
        opened.restore(judged).finish()
        return self._ready(coming, opened)

    def _ready(self, coming: ActiveTask, opened: OpenTask) -> ActiveTask:
        """Begin a new active period: an epoch above every one that was met."""
        target, state = coming.known(), opened.state
        if self.troubles.of(opened.task).careful:
            largest = largest_record(self._settings.client_config("producer"))
            state.check_entries(largest, self._limits)
        # Without a commit of ours to start from everything counted: this is carried forward.
        contained = max(target.limit or NO_STATE, state.state)
        epoch = target.next_epoch(state, transactions=self._settings.exactly_once)
        part = self.topology.subtopology(opened.task.subtopology)
        begin, wall_ms = target.positions(), self._clock.wall_ms()
        between = {topic.name for topic in part.repartitions}
        notes = self.edges.pruned(target.notes_at_start(begin, wall_ms, between))
        start = Start(opened.task, epoch, target.metadata, contained, wall_ms // 1000)
        edges = self.edges.of_task(part, begin, notes, target.topic_ids or {}, start)
        made = {"epoch": epoch, "edges": edges, "in_parts": True}
        processor = self._new_task(opened.task, part, state, begin, **made)
        coming.begin(opened, part, processor, contained)
        coming.notes, coming.rebuilt = notes, target.rebuilt_in(epoch)
        for store, tp in coming.changelogs.items():
            coming.ends[tp] = target.ends[tp]
            if tp in target.rewrite:
                state.write_all_again(store)
        self.troubles.over(opened.task)
        return self._coming.pop(opened.task)
