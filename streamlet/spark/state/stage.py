"""One group of a stage in a micro-batch: a task runs over its rows, or rows are handed on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
from pyspark import TaskContext
from pyspark.sql import Row

from streamlet.spark.kafka.clients import Outbox
from streamlet.spark.kafka.latest import Latest
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.rows.packing import LEAVES, Packed, Sender
from streamlet.spark.state.processor import Options
from streamlet.spark.state.run import KeptState, Runner
from streamlet.types import TaskId

_PackedRow = Row(*Packed._fields)

#: The number of a task's head among its segments, whose numbers begin at 0.
_HEAD = -1

#: Runners of this worker process by query and stage; it outlives the processors, which Spark makes
#: again for every batch.
_RUNNERS: dict[tuple[str, int], tuple[SparkPlan, Options, Runner]] = {}

#: A test run has many queries, and a worker serves all of them.
_QUERIES_KEPT = 8


@attrs.frozen
class Stage:
    """A stage with the state and the outbox of a group, as Spark calls for it.

    Args:
        plan: of the query.
        stage: number of the stage.
        options: how it runs.
        kept: the group's state.
        outbox: takes what leaves the query; None: that becomes rows, too.
    """

    _plan: SparkPlan
    _stage: int
    _options: Options
    _kept: KeptState
    _outbox: Outbox | None

    def handled(self, group: int, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows out for all rows of the group in a micro-batch."""
        for row in self.processed(group, [_packed(row) for row in rows]):
            yield _PackedRow(*row)

    def processed(self, group: int, packed: list[Packed]) -> Iterator[Packed]:
        """The rows out for all rows of the group, as values."""
        task = self._plan.stages[self._stage].tasks.get(group)
        return self._handed_on(packed) if task is None else self._run(task, packed)

    def _handed_on(self, rows: list[Packed]) -> Iterator[Packed]:
        """Rows that are not for this stage, by their address in the next one."""
        rows.sort(key=lambda row: (row.sender, row.first, row.part))
        for row in rows:
            if row.partition == LEAVES and self._outbox is not None:
                self._outbox.send_packed(row.topic, row.records)
            else:
                group = self._plan.address(self._stage + 1, row.topic, row.partition, row.sender)
                yield row._replace(group=group)

    def _run(self, task: TaskId, rows: list[Packed]) -> Iterator[Packed]:
        send = None if self._outbox is None else self._outbox.send
        sender = Sender(self._plan, self._stage + 1, str(task), send)
        inside, latest, count = self._plan.inside, Latest(), 0
        runner = _runner(self._plan, self._stage, self._options)
        for outputs in runner.run(task, rows, self._kept, _batch_id()):
            now = outputs
            if self._options.last_only:
                now = [output for output in outputs if output.topic in inside]
                latest.hold(output for output in outputs if output.topic not in inside)
            yield from sender.rows(now, count)
            count += 1
        yield from sender.rows(latest.outputs(), count)
        yield runner.report(task, sender.records).row()


class KeptBySpark:
    """A task's state in Spark: one call is one round trip to the JVM."""

    def __init__(self, segments: Any) -> None:
        self._segments = segments

    def head(self) -> bytes | None:
        """The header; None before the first batch."""
        found = self._segments.getValue((_HEAD,))
        return None if found is None else bytes(found[0])

    def set_head(self, head: bytes) -> None:
        """Replace the header."""
        self.put(_HEAD, head)

    def get(self, number: int) -> bytes:
        """Read a segment."""
        return bytes(self._segments.getValue((number,))[0])

    def put(self, number: int, segment: bytes) -> None:
        """Keep a segment."""
        self._segments.updateValue((number,), (segment,))

    def remove(self, number: int) -> None:
        """Drop a segment."""
        self._segments.removeKey((number,))


def _runner(plan: SparkPlan, stage: int, options: Options) -> Runner:
    place = (_property("sql.streaming.queryId"), stage)
    if not place[0]:  # a bounded DataFrame: no batch comes after this one
        return _new_runner(plan, options)
    known = _RUNNERS.get(place)
    if known is not None and known[:2] == (plan, options):
        return known[2]
    while len(_RUNNERS) >= _QUERIES_KEPT:
        del _RUNNERS[next(iter(_RUNNERS))]
    runner = _new_runner(plan, options)
    _RUNNERS[place] = (plan, options, runner)
    return runner


def _new_runner(plan: SparkPlan, options: Options) -> Runner:
    read = None if options.clients is None else options.clients.records
    return Runner(plan, options.limits, options.epoch, read, by_time=options.by_time)


def _batch_id() -> int:
    return int(_property("streaming.sql.batchId") or 0)


def _property(name: str) -> str:
    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty(name) or ""


def _packed(row: Row) -> Packed:
    found = Packed(*row)
    return found._replace(records=bytes(found.records))
