"""The spans of a worker: commits, rebalances, and both sides of a hand-over.

They are begun and ended where a worker counts such things (``tasks.meters``), so that a worker
without tracing has nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs
from opentelemetry import context as current
from opentelemetry import trace

from streamlet.coordinator.events import CommitOutcome
from streamlet.processing.outputs import Output
from streamlet.runtime.listeners import Observer
from streamlet.tasks.commit_share import Settled
from streamlet.tasks.meters import Meters
from streamlet.tasks.open_task import RestoreProgress
from streamlet.tracing.spans import TASK
from streamlet.types import TaskId

#: What a task's span is ended with where the task never came so far.
GIVEN_UP = "the task was given up"


@attrs.define
class TracedMeters(Meters):
    """Counters beside a worker's work that have spans, too.

    ``commit`` lasts from the first entry that is written until the answer of the coordinator;
    ``rebalance`` from the assignment until all tasks run; ``release task`` from the task's last
    record until its last commit is accepted, and ``activate task`` until it processes.
    """

    tracer: trace.Tracer = attrs.field(kw_only=True)
    application: str = attrs.field(kw_only=True)
    _commit_span: trace.Span | None = attrs.field(default=None, init=False)
    _rebalance: trace.Span | None = attrs.field(default=None, init=False)
    #: Of an assignment that has moved no task so far, ns since the epoch.
    _unmoved_ns: int | None = attrs.field(default=None, init=False)
    _releases: dict[TaskId, trace.Span] = attrs.field(factory=dict, init=False)
    _activations: dict[TaskId, trace.Span] = attrs.field(factory=dict, init=False)

    def committing(self, began_ns: int) -> None:
        """Begin a commit; of one that is sent again the first begin counts."""
        super().committing(began_ns)
        if self._commit_span is None:
            self._flush()
            ago_ns = self.clock.now_ns() - began_ns
            self._commit_span = self._begin("commit", {}, self._now_ns() - ago_ns)

    def settled(self, settled: Settled) -> None:
        """End the spans that an answer to a commit ends."""
        super().settled(settled)
        for part in settled.parts:
            if settled.outcome is CommitOutcome.ACCEPTED:
                self._end(self._releases, part.active.task)
        span = self._commit_span
        if span is not None and settled.outcome in (CommitOutcome.ACCEPTED, CommitOutcome.LOST):
            self._commit_span = None
            span.set_attribute("streamlet.commit.tasks", len(settled.parts))
            if settled.outcome is CommitOutcome.LOST:
                span.set_status(trace.StatusCode.ERROR, "the tasks were lost")
            span.end()

    def rebalanced(self) -> None:
        """Note an assignment."""
        super().rebalanced()
        self._flush()
        if self._rebalance is None:
            self._unmoved_ns = self._now_ns()

    def stopping(self, tasks: Iterable[TaskId]) -> None:
        """Begin to release tasks."""
        tasks = tuple(tasks)
        super().stopping(tasks)
        for task in tasks:
            self._open(self._releases, "release task", task, {})

    def activating(self, task: TaskId, *, marked: bool) -> None:
        """Begin to bring a task up."""
        super().activating(task, marked=marked)
        about = {"streamlet.handover": marked}
        self._open(self._activations, "activate task", task, about)

    def running(self, task: TaskId) -> None:
        """Note that a task processes from now on."""
        super().running(task)
        self._end(self._activations, task)

    def forget(self, task: TaskId) -> None:
        """Drop the values of a task, and end its spans."""
        super().forget(task)
        self._end(self._releases, task, GIVEN_UP)
        self._end(self._activations, task, GIVEN_UP)

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        """Take the state of the worker: a rebalance lasts until it is RUNNING, or ends."""
        if state == "REBALANCING" and self._rebalance is None:
            self._rebalance = self._begin("rebalance", {}, self._unmoved_ns)
            self._unmoved_ns = None
        elif state != "REBALANCING" and self._rebalance is not None:
            self._rebalance.set_attribute("streamlet.tasks", len(tasks))
            if state != "RUNNING":
                self._rebalance.set_status(trace.StatusCode.ERROR, f"the worker is {state}")
            self._rebalance.end()
            self._rebalance = None
        if state in ("NOT_RUNNING", "ERROR"):
            self._flush()
            for spans in (self._releases, self._activations):
                for task in tuple(spans):
                    self._end(spans, task, GIVEN_UP)

    def _flush(self) -> None:
        """Record an assignment that moved no task here as a moment."""
        if self._unmoved_ns is not None:
            self._begin("rebalance", {}, self._unmoved_ns).end(self._unmoved_ns)
            self._unmoved_ns = None

    def _now_ns(self) -> int:
        return self.clock.wall_ms() * 1_000_000

    def _begin(
        self, name: str, about: Mapping[str, str | bool], began_ns: int | None = None
    ) -> trace.Span:
        group = {"messaging.system": "kafka", "messaging.consumer.group.name": self.application}
        kind = trace.SpanKind.INTERNAL
        about = {**group, **about}
        return self.tracer.start_span(name, current.Context(), kind, about, None, began_ns)

    def _open(
        self, spans: dict[TaskId, trace.Span], name: str, task: TaskId, about: Mapping[str, bool]
    ) -> None:
        self._end(spans, task, GIVEN_UP)
        spans[task] = self._begin(name, {TASK: str(task), **about})

    def _end(self, spans: dict[TaskId, trace.Span], task: TaskId, problem: str = "") -> None:
        span = spans.pop(task, None)
        if span is None:
            return
        if problem:
            span.set_status(trace.StatusCode.ERROR, problem)
        span.end()


@attrs.define
class TracedObserver:
    """An observer of one worker that tells its meters of states, too."""

    meters: TracedMeters
    observer: Observer

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        """The worker's state or tasks changed."""
        self.meters.state_changed(state, tasks)
        self.observer.state_changed(state, tasks)

    @property
    def copying(self) -> Callable[[RestoreProgress], None] | None:
        """Takes the progress of copies, if that is wanted."""
        return self.observer.copying

    def restoring(self, progress: RestoreProgress) -> None:
        """A store is being restored."""
        self.observer.restoring(progress)

    def produced(self, outputs: list[Output]) -> None:
        """Take outputs that were handed to the producer."""
        self.observer.produced(outputs)

    def settled(self, counts: bool) -> None:
        """Learn whether what was produced since the last call is committed, or never will be."""
        self.observer.settled(counts)
