"""The nodes of a subtopology, compiled into functions that hand batches to their children.

Batches go depth first and in order of creation, so that within one key things happen in the order
in which Kafka Streams would let them happen. A step is a generator: it stops between two parts of
the output of an operator that gives it in parts, so that the tasks beside it need not wait for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.processing.encoding import SinkEncoder
from streamlet.processing.node_meters import NodeMeters
from streamlet.processing.output_order import Meeting, OrderedNodes, Step
from streamlet.processing.record_failures import RecordFailures
from streamlet.processing.task_calls import TaskCalls
from streamlet.processing.unread_values import UnreadValues
from streamlet.processing.value_copies import Attempts, uses_values, with_copies, writes_as_read
from streamlet.topology.nodes import ProcessorNode, SinkNode, SourceNode
from streamlet.topology.operator import (
    CallingOperator,
    GatheringOperator,
    HoldingOperator,
    OperatorInParts,
    OrderedOperator,
    PunctuatedOperator,
    TaskContext,
    TimedOperator,
)
from streamlet.topology.order import forks_of
from streamlet.topology.reach import with_all_below
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TopicPartition

_T = TypeVar("_T")


@attrs.frozen
class UnderWay:
    """A batch that was begun: what is still to be done, and the positions once it is."""

    step: Iterator[None]
    positions: Mapping[TopicPartition, int]


class NodeSteps:
    """The compiled nodes of one task.

    Args:
        subtopology: what the task does.
        context: what its operators are made with.
        results: takes what comes out, and what fails.
        partition_counts: of topics that are written.
    """

    def __init__(
        self,
        subtopology: Subtopology,
        context: TaskContext,
        results: RecordFailures,
        partition_counts: Mapping[str, int],
    ) -> None:
        self._subtopology, self._context, self._results = subtopology, context, results
        self._partition_counts = dict(partition_counts)
        self._forks = forks_of(subtopology)
        #: The values that are not decoded, since no node looks at them.
        self.unread = UnreadValues.of(subtopology)
        self._meetings: dict[str, Meeting] = {}
        self._compiled: dict[str, Step] = {}
        self._holding: dict[str, tuple[HoldingOperator, Step]] = {}
        self._timed: dict[str, tuple[TimedOperator, Step]] = {}
        self._punctuated: dict[str, tuple[PunctuatedOperator, Step]] = {}
        #: Those that take records of several inputs in their order.
        self.ordered = OrderedNodes()
        #: Counters of the nodes; they count once a worker says so.
        self.meters = NodeMeters()
        #: Of operators at which records wait; None: there are none.
        self.calls: TaskCalls | None = None
        self._behind = {source.name: self._forward(source.name) for source in subtopology.sources}
        if self.calls is not None and self._holding:
            self.calls.release = self._release

    def wrap_timed(self, around: Callable[[str, Step], Step]) -> None:
        """Wrap the steps behind the nodes, by their names, that send without a record."""
        timed, punctuated = self._timed, self._punctuated
        timed.update({name: (one, around(name, step)) for name, (one, step) in timed.items()})
        for name, (operator, step) in punctuated.items():
            punctuated[name] = operator, around(name, step)

    def behind(self, source: str) -> Step:
        """The step that takes a source's batches through the nodes below it."""
        return self._behind[source]

    def send_aside(self, operator: str, records: Callable[[], Batch]) -> None:
        """Take late records of an operator through the nodes aside of it, if there are any."""
        children = self._subtopology.children(operator, aside=True)
        steps = [self._own_step(child) for child in children]  # the operator may have kept values
        if steps:
            batch = records()
            for step in steps:
                for _ in step(batch):
                    self._results.sit_out()  # there are few, so they are not sent in parts

    def release(self) -> Iterator[None]:
        """Send on, before a commit, what operators hold back and the results of calls."""
        return self._release() if self.calls is None else self.calls.settle()

    def end_calls(self) -> Iterator[None]:
        """Send on the results of calls, and hold back what waits for a commit."""
        return iter(()) if self.calls is None else self.calls.end()

    def _release(self) -> Iterator[None]:
        """Send on what operators hold back until a commit, from the first to the last of them."""
        for operator, forward in self._in_order(self._holding):
            batch = operator.release()
            if batch is not None and len(batch):
                yield from forward(batch)

    @property
    def timed(self) -> bool:
        """True if an operator acts by the clock."""
        return any(operator.timed for operator, _ in self._timed.values())

    def tick(self, at: Batch) -> Iterator[None]:
        """Let each operator act by the clock, without a record, in topological order.

        Not those that records may still come to which wait for calls, or results for a commit.
        """
        waiting = {name for name, (operator, _) in self._holding.items() if operator.holds}
        if self.calls is not None:
            waiting |= self.calls.waiting
        behind = with_all_below(self._subtopology, waiting)
        timed = {name: one for name, one in self._timed.items() if name not in behind}
        for operator, forward in self._in_order(timed):
            yield from _sent(operator.tick(at), forward)

    def _in_order(self, operators: Mapping[str, _T]) -> Iterator[_T]:
        """Operators of some nodes, from the first to the last of them."""
        names = (node.name for node in self._subtopology.processors)
        return (operators[name] for name in names if name in operators)

    # Operators with punctuators.

    def begin(self, now_ns: Callable[[], int] | None) -> None:
        """Start the operators that have user code to start; measure all by this time, if any."""
        for operator, _ in self._punctuated.values():
            operator.begin()
        if now_ns is not None:
            self.meters.begin(now_ns)

    def end(self) -> None:
        """Stop the operators."""
        for operator, _ in self._punctuated.values():
            operator.end()
        if self.calls is not None:
            self.calls.close()

    @property
    def punctuated(self) -> bool:
        """True if an operator has punctuators, or may have some."""
        return bool(self._punctuated)

    def by_stream_time(self, at: Batch) -> Iterator[None]:
        """Run the callbacks that are due by the batch's stream time."""
        for operator, forward in self._in_order(self._punctuated):
            yield from _sent(operator.by_stream_time(at), forward)

    @property
    def clock_due_ms(self) -> int | None:
        """The time of the next action by the clock, ms since the epoch; None: there is none."""
        dues = (operator.clock_due_ms for operator, _ in self._punctuated.values())
        return min((due for due in dues if due is not None), default=None)

    def by_clock(self, at: Batch) -> Iterator[None]:
        """Run the callbacks that are due by the clock."""
        for operator, forward in self._in_order(self._punctuated):
            yield from _sent(operator.by_clock(at), forward)

    def _forward(self, name: str) -> Step:
        """The step behind a node: its children, in order of creation."""
        children = self._subtopology.children(name)
        node = self._subtopology.node(name)
        kept = isinstance(node, ProcessorNode) and node.keeps
        # The last way gets the objects themselves, unless a store has them.
        copied = children if kept else children[:-1]
        steps = [
            self._own_step(child) if child in copied else self._step(child) for child in children
        ]
        own = [_child_name(self._subtopology.node(child)) for child in children]
        if any(own):
            steps = [_addressed(step, to) for step, to in zip(steps, own, strict=True)]
        cut, gathered = self._forks.cut, self._forks.gathered
        if len(steps) == 1 and name not in cut:
            return steps[0]
        if name in gathered:
            meeting = self._meetings[gathered[name]]
            return meeting.of_branches(_one_after_the_other(steps), _record_by_record(steps))
        return _record_by_record(steps) if name in cut else _one_after_the_other(steps)

    def _own_step(self, name: str) -> Step:
        """The step of a node; if it uses values, they are copies that no other branch is given."""
        step = self._step(name)
        return with_copies(step) if uses_values(self._subtopology, name) else step

    def _step(self, name: str) -> Step:
        step = self._compiled.get(name)
        if step is None:
            node = self._subtopology.node(name)
            assert not isinstance(node, SourceNode), name
            step = self._sink(node) if isinstance(node, SinkNode) else self._processor(node)
            if name in self._forks.gathered.values():
                meeting = self._meetings[name] = Meeting(step)
                step = meeting.step
            self._compiled[name] = step
        return step

    def _processor(self, node: ProcessorNode) -> Step:
        operator = node.factory(self._context)
        self._results.operators[node.name] = operator
        forward = self._forward(node.name)
        if isinstance(operator, HoldingOperator):
            self._holding[node.name] = operator, forward
        if isinstance(operator, TimedOperator):
            self._timed[node.name] = operator, forward
        if isinstance(operator, PunctuatedOperator):
            self._punctuated[node.name] = operator, forward
            self.meters.punctuations.append(lambda: operator.punctuations)
        through: Step
        meter = self.meters.of(node.name)
        hooked = operator
        if node.around is not None and not isinstance(operator, CallingOperator):
            hooked = node.around(operator)
        if isinstance(hooked, CallingOperator):
            through = meter.given(self._waits().add(node, hooked, forward))
        elif isinstance(hooked, OperatorInParts):
            through = _in_parts(meter.in_parts(hooked.process_in_parts), forward)
        else:
            through = _whole(meter.whole(hooked.process), forward)
        failed = self.unread.decoding(node, self._results.record_failed)
        again = node.values == "used" and self._results.policy.may_retry

        def step(batch: Batch) -> Iterator[None]:
            attempts = Attempts(batch, again)
            while len(attempts.batch):
                try:
                    yield from through(attempts.batch)
                    return
                except OperatorFailed as failure:
                    if len(failure.done):
                        yield from forward(failure.done)
                    if failed(attempts.failed(failure.index), node, failure, attempts.tries):
                        yield
                        attempts.begin()
                        continue
                    if failure.left_out is not None:
                        failure.left_out()
                    if failure.instead is not None and len(failure.instead):
                        yield from forward(failure.instead)
                    attempts.left_out()

        if isinstance(operator, OrderedOperator):
            self.ordered.add(operator, meter.given(step, -1), forward)
        if isinstance(hooked, GatheringOperator) and hooked.max_wait_ms:
            together = meter.together(hooked.process_together)
            return self._waits().gather(node.name, hooked, step, together, forward)
        return step

    def _waits(self) -> TaskCalls:
        """The records that wait at operators, of which there is one at least."""
        if self.calls is None:
            self.calls = TaskCalls(self._context, self._results)
        return self.calls

    def _sink(self, node: SinkNode) -> Step:
        if not node.by_record:
            return self._sink_to(node)
        steps: dict[str, Step] = {}

        def step(batch: Batch) -> Iterator[None]:
            chosen = batch.olds
            assert chosen is not None
            for topic in dict.fromkeys(chosen):
                if topic not in steps:
                    steps[topic] = self._sink_to(attrs.evolve(node, topic=topic), by_record=True)
                yield from steps[topic](batch.select([one == topic for one in chosen]))

        return step

    def _sink_to(self, node: SinkNode, by_record: bool = False) -> Step:
        results, context = self._results, self._context
        count = self._partition_counts.get(node.topic, 0)
        encode = SinkEncoder(
            node,
            count,
            lambda dropped: context.dropped(node.name, dropped),
            by_record,
            writes_as_read(self._subtopology, node),
        ).encode

        def emit(batch: Batch) -> None:
            output = encode(batch)
            if output.keys:  # a partitioner may send all to no partition
                results.emit(output)

        def step(batch: Batch) -> Iterator[None]:
            tries = 0  # of the first record of the batch
            while len(batch):
                try:
                    emit(batch)
                    return
                except OperatorFailed as failed:
                    if failed.index:
                        emit(failed.done)
                    tries = 1 if failed.index else tries + 1
                    batch = batch.slice(failed.index, len(batch))
                    if results.record_failed(batch, node, failed, tries):
                        yield
                    else:
                        tries, batch = 0, batch.slice(1, len(batch))

        return step


def _whole(process: Callable[[Batch], Batch], forward: Step) -> Step:
    """An operator that gives its output in one piece."""

    def through(batch: Batch) -> Iterator[None]:
        out = process(batch)
        return forward(out) if len(out) else iter(())

    return through


def _in_parts(process: Callable[[Batch], Iterator[Batch | None]], forward: Step) -> Step:
    """An operator that gives its output in parts."""
    return lambda batch: _sent(process(batch), forward)


def _sent(parts: Iterator[Batch | None], forward: Step) -> Iterator[None]:
    """Send an output on part by part; other tasks run between parts and in a pause (None)."""
    for number, out in enumerate(parts):
        if number or out is None:
            yield
        if out is not None and len(out):
            yield from forward(out)


def _child_name(node: SourceNode | ProcessorNode | SinkNode) -> str:
    return node.child if isinstance(node, ProcessorNode) else ""


def _addressed(step: Step, child: str) -> Step:
    """Send what is for all children (None in the column ``olds``), or for this one by its name."""

    def forward(batch: Batch) -> Iterator[None]:
        if batch.olds is None:
            return step(batch)
        part = batch.select([to is None or to == child for to in batch.olds])
        return step(part.with_values(part.values)) if len(part) else iter(())

    return forward


def _one_after_the_other(steps: Sequence[Step]) -> Step:
    """Send a batch to each child."""

    def forward(batch: Batch) -> Iterator[None]:
        for step in steps:
            yield from step(batch)

    return forward


def _record_by_record(steps: Sequence[Step]) -> Step:
    """Send records one by one, where two branches meet again and records must keep their order."""

    def forward(batch: Batch) -> Iterator[None]:
        for i in range(len(batch)):
            one = batch.slice(i, i + 1)
            for step in steps:
                yield from step(one)

    return forward
