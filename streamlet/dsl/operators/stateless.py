"""Operators on streams that keep nothing. Null keys and values go to user functions as None."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import not_, truth
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.dsl.operators.columns import (
    collect,
    collect_unused,
    finished,
    first_of,
    has_null,
    not_null,
    over_values,
    spread_batch,
)
from streamlet.dsl.operators.copies import Own, groups, snapshots
from streamlet.dsl.operators.pairs import plain_pair
from streamlet.dsl.operators.whole_results import several
from streamlet.lazy_results import LARGE, looked_at, refuse_answer
from streamlet.topology.operator import TaskContext

Function = Callable[..., Any]


@attrs.define
class Filter:
    """Keeps records for which ``function(key, value)`` is true (``keep``) or false."""

    function: Function
    keep: bool
    _looked: bool = attrs.field(default=False, init=False)

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function, or the truth of its answer, fails."""
        answers: Iterator[Any] = map(self.function, batch.keys, batch.values)
        if not self._looked or len(batch) > LARGE:
            answers = looked_at(answers, refuse_answer)
        mask, error = collect(map(truth if self.keep else not_, answers), len(batch))
        self._looked = self._looked or bool(mask)
        if error is None and all(mask):
            return batch
        return finished(batch.select(mask), error, len(mask))


@attrs.frozen
class MapValues:
    """Replaces values by ``function(value)`` or ``function(key, value)``.

    ``own`` makes copies of what it returns (``copies``); None: that cannot change.
    """

    function: Function
    takes: int
    own: Own = None

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails."""
        results = over_values(self.function, self.takes, batch.keys, batch.values)
        out, error = collect(snapshots(results, self.own), len(batch))
        return finished(first_of(batch, len(out)).with_values(out), error)


@attrs.frozen
class SelectKey:
    """Replaces keys by ``function(key, value)``; ``own`` as of ``MapValues``."""

    function: Function
    own: Own = None

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails."""
        keys = snapshots(map(self.function, batch.keys, batch.values), self.own)
        out, error = collect(keys, len(batch))
        return finished(first_of(batch, len(out)).with_keys(out), error)


@attrs.frozen
class Map:
    """Replaces records by the pairs that ``function(key, value)`` returns.

    ``own`` makes copies of pairs; None: they cannot change.
    """

    function: Function
    own: Own = None

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails or returns no pair."""
        pairs = map(plain_pair, map(self.function, batch.keys, batch.values))
        out, error = collect(snapshots(pairs, self.own), len(batch))
        return finished(_with_pairs(first_of(batch, len(out)), out), error)


@attrs.frozen
class FlatMapValues:
    """One record for each value in what ``function`` returns; keys and times are repeated.

    ``own`` as of ``MapValues``.
    """

    function: Function
    takes: int
    own: Own = None

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails or returns nothing iterable."""
        results = over_values(self.function, self.takes, batch.keys, batch.values)
        made, error = collect(groups(map(several, results), self.own), len(batch))
        return finished(_expanded(first_of(batch, len(made)), made), error, len(made))


@attrs.frozen
class FlatMap:
    """One record for each ``(key, value)`` in what ``function(key, value)`` returns.

    ``own`` as of ``Map``.
    """

    function: Function
    own: Own = None

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails or yields something else than pairs."""
        results = map(self.function, batch.keys, batch.values)
        made, error = collect(groups(map(_pairs, results), self.own), len(batch))
        expanded = _expanded(first_of(batch, len(made)), made)
        return finished(_with_pairs(expanded, expanded.values), error, len(made))


@attrs.frozen
class Peek:
    """Calls ``function(key, value)`` and hands the records on."""

    function: Function

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails."""
        out, error = collect_unused(map(self.function, batch.keys, batch.values), len(batch))
        return finished(first_of(batch, len(out)), error)


@attrs.frozen
class Foreach:
    """Calls ``function(key, value)`` and ends the stream."""

    function: Function

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails."""
        out, error = collect_unused(map(self.function, batch.keys, batch.values), len(batch))
        return finished(batch.slice(0, 0), error, len(out))


@attrs.frozen
class PassOn:
    """Hands records on as they are (a merge)."""

    def process(self, batch: Batch) -> Batch:
        """The batch itself."""
        return batch


@attrs.frozen
class DropNullKeys:
    """Leaves out records without a key before they are partitioned by it, and counts them."""

    name: str
    context: TaskContext

    def process(self, batch: Batch) -> Batch:
        """The records with a key."""
        if not has_null(batch.keys):
            return batch
        mask = not_null(batch.keys)
        self.context.dropped(self.name, len(mask) - sum(mask))
        return batch.select(mask)


def _pairs(results: Any) -> Iterable[tuple[Any, Any]]:
    """The pairs, each checked; one by one where the function makes one after the other."""
    if type(results) in (list, tuple):
        return list(map(plain_pair, results))
    return map(plain_pair, several(results, "pairs (key, value)"))


def _with_pairs(batch: Batch, pairs: list[Any]) -> Batch:
    return attrs.evolve(
        batch, keys=[key for key, _ in pairs], values=[value for _, value in pairs], olds=None
    )


def _expanded(batch: Batch, groups: list[tuple[Any, ...]]) -> Batch:
    return spread_batch(batch, list(map(len, groups)), list(chain.from_iterable(groups)))


@attrs.frozen
class ToStream:
    """Hands changes on as records; previous values end here."""

    def process(self, batch: Batch) -> Batch:
        """The batch without previous values."""
        if batch.behind is not None:
            return attrs.evolve(batch, olds=None, behind=None)
        return batch if batch.olds is None else batch.with_values(batch.values)
