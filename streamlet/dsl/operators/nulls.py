"""Leaves out records that an operator has no use for by rule, and counts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.operators.columns import has_null, not_null
from streamlet.topology.operator import Operator, OperatorInParts, TaskContext, TimedOperator


def skipping_nulls(
    name: str,
    context: TaskContext,
    inner: Operator | OperatorInParts,
    *,
    values: bool,
    keys: bool = True,
) -> Operator | OperatorInParts:
    """The operator ``inner`` for records with a key, if ``keys``, and a value, if ``values``."""
    return skipping(Skip(name, context, values, keys), inner)


def skipping(skip: Skip, inner: Operator | OperatorInParts) -> Operator | OperatorInParts:
    """The operator ``inner`` for the records that are not left out."""
    if isinstance(inner, OperatorInParts):
        return SkipNullsInParts(skip, inner)
    return SkipNulls(skip, inner)


@attrs.frozen
class Skip:
    """The records that are left out of batches.

    Args:
        name: of the node.
        context: counts them.
        values: whether records need a value.
        keys: whether they need a key.
    """

    name: str
    context: TaskContext
    values: bool
    keys: bool = True

    def mask(self, batch: Batch) -> list[Any] | None:
        """Mask of the records to keep; None: all."""
        null_key = self.keys and has_null(batch.keys)
        if not (self.values and has_null(batch.values)):
            return not_null(batch.keys) if null_key else None
        if not null_key:
            return not_null(batch.values)
        pairs = zip(batch.keys, batch.values, strict=True)
        return [key is not None and value is not None for key, value in pairs]

    def part(self, batch: Batch, mask: list[Any]) -> Batch:
        """The records to keep, as the operator gets them."""
        return batch.select(mask)

    def failed(self, failed: OperatorFailed, mask: list[Any]) -> OperatorFailed:
        """The failure of the operator with the index of its record in the whole batch."""
        places = [index for index, kept in enumerate(mask) if kept]
        index = places[failed.index]
        # The rest of the batch comes again; its nulls are counted then.
        self.context.dropped(self.name, index - failed.index)
        return failed.at(index, failed.done)


@attrs.frozen
class SkipNulls:
    """Gives ``inner`` only the records that are not left out."""

    skip: Skip
    inner: Operator

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as ``inner`` does, with the index in the batch given here."""
        mask = self.skip.mask(batch)
        if mask is None:
            return self.inner.process(batch)
        part = self.skip.part(batch, mask)
        try:
            out = self.inner.process(part) if len(part) else part
        except OperatorFailed as failed:
            raise self.skip.failed(failed, mask) from failed.__cause__
        self.skip.context.dropped(self.skip.name, len(batch) - len(part))
        return out


@attrs.frozen
class SkipNullsInParts:
    """Gives ``inner`` only the records that are not left out; its output comes in parts."""

    skip: Skip
    inner: OperatorInParts

    @property
    def timed(self) -> bool:
        """True if ``inner`` acts by the clock."""
        return isinstance(self.inner, TimedOperator) and self.inner.timed

    def tick(self, at: Batch) -> Iterator[Batch | None]:
        """Output of ``inner`` that comes without a record."""
        return self.inner.tick(at) if isinstance(self.inner, TimedOperator) else iter(())

    def process_in_parts(self, batch: Batch) -> Iterator[Batch | None]:
        """Raises ``OperatorFailed`` as ``inner`` does, with the index in the batch given here."""
        mask = self.skip.mask(batch)
        if mask is None:
            yield from self.inner.process_in_parts(batch)
            return
        part = self.skip.part(batch, mask)
        try:
            if len(part):
                yield from self.inner.process_in_parts(part)
        except OperatorFailed as failed:
            raise self.skip.failed(failed, mask) from failed.__cause__
        self.skip.context.dropped(self.skip.name, len(batch) - len(part))
