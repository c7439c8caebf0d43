"""Hooks around the nodes of a topology: ``ProcessorWrapper``, and how nodes get them.

Operators work on batches, so the hook around one is called with batches. A topology without hooks
has none of this: it is put into the nodes of a finished topology.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from streamlet.absent import explains_misuse
from streamlet.batch import Batch, OperatorFailed, joined
from streamlet.dsl.operators.record_batch import RecordBatch
from streamlet.errors import ConfigError, StateError, StreamletError, error_text
from streamlet.lazy_results import is_async, refuse_promise
from streamlet.named_objects import named_object
from streamlet.topology.graph import Topology
from streamlet.topology.nodes import GlobalTableSpec, ProcessorNode
from streamlet.topology.operator import GatheringOperator, Operator, OperatorInParts
from streamlet.user_code import shown


@explains_misuse
class ProcessorWrapper:
    """A base for hooks around all nodes of an application that process records.

    For what belongs around each of them: logs, times, counters, checks. Given as
    ``App(processor_wrapper=…)`` or by the setting ``processor.wrapper``; each process has its own.
    Kafka Streams' ``ProcessorWrapper``, but that operators, which work on batches here, are wrapped
    by the batch. Sources and sinks are not wrapped, as there, nor is ``map_values_async``, whose
    calls run beside the task.

    Examples:
        A line for each batch that an operator has taken:

        >>> class Lines(sl.ProcessorWrapper):
        ...     def process_batch(self, name, batch, process):
        ...         results = process()
        ...         print(f"{name}: {len(batch)} in, {len(results)} out")
        >>> app = sl.App("shop", processor_wrapper=Lines)
    """

    def wrap_processor(self, name: str, processor: Any) -> Any:
        """The processor to call in the place of one of ``process`` or ``process_values``.

        Called by each task when it makes its processors. What it returns has ``process(record)``,
        and perhaps ``init(context)`` and ``close()``, which call those of ``processor``. It gets
        the same context, with the same stores; it may call ``schedule`` if the wrapped one does.
        A function of the record is a processor, too; one with state is an operator.

        Args:
            name: of the node.
            processor: the one to wrap. Without ``init`` or ``close`` if its class has none.
        """
        return processor

    def process_batch(
        self,
        name: str,
        batch: RecordBatch[Any, Any],
        process: Callable[[], RecordBatch[Any, Any]],
    ) -> None:
        """Call ``process()`` once, with what belongs before and behind it.

        Called for each batch that comes to an operator which is no processor. It can look at
        records and results, and cannot change them. An operator that gives its output in parts is
        called once for each part; ``batch`` is empty from the second on. Results that come without
        a record, at a commit or by the clock, do not come by here.

        Errors go by the record, as those of functions do. What is raised before ``process()`` is
        called: the records are then taken one by one, and the error policy decides about those that
        it is raised for. What is raised behind it counts for the last record, whose results are
        there already. ``process()`` raises the error of a function that failed, about which the
        policy decides whatever is raised here.

        Args:
            name: of the node.
            batch: its records. The columns are its own, keys and values those that go on: do not
                change them.
            process: has the operator process them; its results. Between the nodes of one operator,
                as of a join by foreign keys, values are what these need.
        """
        process()


def as_wrapper(given: object) -> ProcessorWrapper:
    """The wrapper that a program gives, as an object or by its class.

    Raises:
        ValueError: it is none, or cannot be made.
    """
    made = given
    if isinstance(given, type) and issubclass(given, ProcessorWrapper):
        try:
            made = given()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a user's function may raise anything, or exit
            raise ValueError(f"{given.__name__}() failed: {error_text(error)}") from error
    if not isinstance(made, ProcessorWrapper):
        raise ValueError(f"expected a ProcessorWrapper, or a class below it, not {shown(given)}")
    for method in (made.wrap_processor, made.process_batch):
        if is_async(method):
            raise ValueError(f"{method.__name__}() of {type(made).__name__} cannot be async")
    return made


def named_wrapper(name: str) -> ProcessorWrapper:
    """The wrapper that the setting ``processor.wrapper`` names.

    Raises:
        ConfigError: there is none of this name.
    """
    try:
        return as_wrapper(named_object(name, ProcessorWrapper, "shop:Lines", classes=True))
    except (LookupError, ValueError) as error:
        raise ConfigError([f"processor.wrapper: {error}"]) from error


def with_wrapper(topology: Topology, wrapper: ProcessorWrapper) -> Topology:
    """The topology with a wrapper around each of its nodes that process records."""
    parts = (
        attrs.evolve(part, processors=tuple(_wrapped(node, wrapper) for node in part.processors))
        for part in topology.subtopologies
    )
    tables = topology.global_tables
    if _has_hook(wrapper):
        tables = tuple(_wrapped_table(table, wrapper) for table in tables)
    return attrs.evolve(topology, subtopologies=tuple(parts), global_tables=tables)


def _has_hook(wrapper: ProcessorWrapper) -> bool:
    """True if it has one for batches."""
    return type(wrapper).process_batch is not ProcessorWrapper.process_batch


def _wrapped(node: ProcessorNode, wrapper: ProcessorWrapper) -> ProcessorNode:
    if node.with_processor is not None:
        factory = node.with_processor(lambda made: _wrapped_processor(wrapper, node.name, made))
        return attrs.evolve(node, factory=factory)
    if not _has_hook(wrapper):
        return node

    def around(operator: Any) -> HookedOperator:
        kind = HookedGathering if isinstance(operator, GatheringOperator) else HookedOperator
        return kind(wrapper, node.name, operator)

    return attrs.evolve(node, around=around)


def _wrapped_processor(wrapper: ProcessorWrapper, name: str, processor: Any) -> Any:
    """The processor that a task calls.

    Raises:
        StreamletError: the wrapper failed, or returned no processor.
    """
    whose = f"{name}: wrap_processor() of {type(wrapper).__name__}"
    try:
        found = wrapper.wrap_processor(name, processor)
    except (StreamletError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a user's function may raise anything, or exit
        raise StreamletError(f"{whose} failed: {error_text(error)}") from error
    process = getattr(found, "process", None)
    if not callable(process) or isinstance(found, type) or is_async(process):
        raise StreamletError(
            f"{whose} returned {shown(found)}: expected a processor, with process(record)"
        )
    return found


def _wrapped_table(table: GlobalTableSpec, wrapper: ProcessorWrapper) -> GlobalTableSpec:
    def make(store: Any) -> Operator:
        return _HookedTable(HookedOperator(wrapper, table.node, table.make(store)))

    return attrs.evolve(table, make=make)


@attrs.frozen
class _HookedTable:
    """The operator of a global table, with a hook."""

    hooked: HookedOperator

    def process(self, batch: Batch) -> Batch:
        """Put rows into the table."""
        if not len(batch):
            return batch
        return joined([part for part in self.hooked.process_in_parts(batch) if part is not None])


@attrs.frozen
class HookedOperator:
    """An operator with a hook around it, as an operator in parts."""

    wrapper: ProcessorWrapper
    name: str
    operator: Any

    def process_in_parts(self, batch: Batch) -> Iterator[Batch | None]:
        """The operator's output; the hook is called for each part of it.

        Raises:
            OperatorFailed: the operator did, or the hook.
            StreamletError: the hook did not call ``process()``, or more than once.
        """
        parts, nothing, more = self._parts(batch), batch.slice(0, 0), False
        while True:
            call = _Call(parts)
            error = self._called(nothing if more else batch, call)
            if error is not None and not (more or call.count):
                if len(batch) == 1:
                    raise OperatorFailed(0, nothing, again=True) from error
                yield from self._one_by_one(batch)
                return
            if not call.ended:
                yield call.part
            if error is not None:
                yield from parts  # the stores have it, so it is sent as well
                raise OperatorFailed(len(batch) - 1, nothing) from error
            if call.ended or not isinstance(self.operator, OperatorInParts):
                return
            more = True

    def _parts(self, batch: Batch) -> Iterator[Batch | None]:
        if isinstance(self.operator, OperatorInParts):
            yield from self.operator.process_in_parts(batch)
        else:
            yield self.operator.process(batch)

    def _one_by_one(self, batch: Batch) -> Iterator[Batch | None]:
        """The output where the hook refuses the batch, and may mean some of the records alone."""
        for index in range(len(batch)):
            try:
                yield from self.process_in_parts(batch.slice(index, index + 1))
            except OperatorFailed as failed:
                raise failed.at(index, failed.done) from failed.__cause__

    def _called(self, batch: Batch, call: _Call) -> BaseException | None:
        """Call the hook; what it raised by itself."""
        hook: Any = self.wrapper.process_batch
        error: BaseException | None = None
        try:
            refuse_promise(hook(self.name, _seen(batch), call.process))
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as raised:  # a user's function may raise anything, or exit
            error = raised
        if call.failed is not None:
            raise call.failed
        if call.count > 1 or (error is None and not call.count):
            raise StreamletError(
                f"{self.name}: process_batch() of {type(self.wrapper).__name__} called process() "
                f"{'twice' if call.count else 'not at all'}: expected once"
            )
        return error


@attrs.frozen
class HookedGathering(HookedOperator):
    """An operator with a hook, whose records wait for others; its function is called by partition.

    As of ``topology.operator.GatheringOperator``.
    """

    @property
    def max_records(self) -> int:
        """The most records that it processes together."""
        most: int = self.operator.max_records
        return most

    @property
    def max_wait_ms(self) -> int:
        """The longest time that a record waits for others, ms."""
        longest: int = self.operator.max_wait_ms
        return longest

    def process_together(self, runs: Sequence[Batch]) -> list[Batch] | None:
        """None: each partition's records go to the hook by themselves."""
        return None


@attrs.define
class _Call:
    """One call of a hook: its ``process()``, and what came of that."""

    _parts: Iterator[Batch | None]
    count: int = 0
    #: Of the output; None: a pause.
    part: Batch | None = None
    #: True if there was no further part.
    ended: bool = False
    failed: BaseException | None = None

    def process(self) -> RecordBatch[Any, Any]:
        """Have the operator process its records; the next part of its output."""
        self.count += 1
        if self.count > 1:
            raise StreamletError("process() was called twice for one batch")
        end = object()
        failed: BaseException | None = None
        try:
            part: Any = next(self._parts, end)
        except OperatorFailed as error:
            self.failed, failed = error, error.__cause__ or error
        except BaseException as error:
            self.failed = error
            raise
        if failed is not None:
            raise failed
        self.ended = part is end
        self.part = None if self.ended else part
        return _seen(self.part)


def _seen(batch: Batch | None) -> RecordBatch[Any, Any]:
    """Records as a hook is shown them."""
    if batch is None:
        return RecordBatch([], [], [])
    return RecordBatch(list(batch.keys), list(batch.values), list(batch.timestamps), batch.headers)
