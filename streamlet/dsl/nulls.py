"""Leaves out records that an operator has no use for by rule, and counts them."""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.columns import has_null, not_null
from streamlet.topology.operator import Operator, TaskContext


@attrs.frozen
class SkipNulls:
    """Gives ``inner`` only the records that have a key and, if ``values``, a value."""

    name: str
    context: TaskContext
    inner: Operator
    values: bool = True

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as ``inner`` does, with the index in the batch given here."""
        mask = self._mask(batch)
        if mask is None:
            return self.inner.process(batch)
        part = batch.select(mask)
        try:
            out = self.inner.process(part) if len(part) else part
        except OperatorFailed as failed:
            places = [index for index, kept in enumerate(mask) if kept]
            index = places[failed.index]
            # The rest of the batch comes again; its nulls are counted then.
            self.context.dropped(self.name, index - failed.index)
            raise OperatorFailed(index, failed.done) from failed.__cause__
        self.context.dropped(self.name, len(batch) - len(part))
        return out

    def _mask(self, batch: Batch) -> list[Any] | None:
        null_key = has_null(batch.keys)
        if not (self.values and has_null(batch.values)):
            return not_null(batch.keys) if null_key else None
        pairs = zip(batch.keys, batch.values, strict=True)
        return [key is not None and value is not None for key, value in pairs]
