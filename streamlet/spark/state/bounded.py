"""A stage over bounded data, as a map over the rows of its tasks; its state ends with them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import attrs

from streamlet.garbage import without_gc
from streamlet.spark.error_notes import reported_rows
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.rows.packing import Packed

if TYPE_CHECKING:
    import pyarrow as pa

    from streamlet.spark.state.processor import Options

#: Rows of some thousands of records each that are handed to Spark at once.
_ROWS_AT_ONCE = 64


@attrs.frozen
class BoundedStage:
    """All tasks of one stage, in ``mapInArrow``, over rows that are sorted by their group.

    Rows in and out are of ``schemas.PACKED``.

    Raises:
        ProcessingError: when called, a record failed under the policy ``fail``.
    """

    plan: SparkPlan
    stage: int
    options: Options

    @reported_rows
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks of one Spark partition, one after the other."""
        from streamlet.spark.rows.columns import packed_rows

        found: list[Packed] = []
        with without_gc():
            for row in self._out(batches):
                found.append(row)
                if len(found) >= _ROWS_AT_ONCE:
                    yield packed_rows(found)
                    found = []
        if found:
            yield packed_rows(found)

    def _out(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Packed]:
        from streamlet.spark.state.stage import Stage

        for group, rows in groupby(_rows(batches), key=lambda row: row.group):
            stage = Stage(self.plan, self.stage, self.options, MemoryState(), None)
            yield from stage.processed(group, list(rows))


class MemoryState:
    """The state of a task that has one batch only, in memory."""

    def __init__(self) -> None:
        self._segments: dict[int, bytes] = {}

    def head(self) -> bytes | None:
        """None: there was no batch before."""
        return None

    def set_head(self, head: bytes) -> None:
        """Do nothing: no batch follows."""

    def get(self, number: int) -> bytes:
        """Read a segment."""
        return self._segments[number]

    def put(self, number: int, segment: bytes) -> None:
        """Keep a segment."""
        self._segments[number] = segment

    def remove(self, number: int) -> None:
        """Drop a segment."""
        del self._segments[number]


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Packed]:
    for rows in batches:
        yield from map(Packed, *(rows[name].to_pylist() for name in Packed._fields))
