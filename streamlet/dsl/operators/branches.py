"""The operators of branches: a column with the number of each record's branch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from operator import eq, not_
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.dsl.operators.columns import collect, finished, first_of
from streamlet.lazy_results import LARGE, looked_at, refuse_answer

#: Number of the records that fit no branch where there is no default branch.
NO_BRANCH = -1


@attrs.frozen
class NumberBranches:
    """Puts the number of each record's branch in the column ``olds``, which streams do not use.

    Records without a branch are left out.
    """

    function: Callable[[Any, Any], int]

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a predicate fails."""
        return _numbered(batch, map(self.function, batch.keys, batch.values))


@attrs.define
class NumberTwo:
    """``NumberBranches`` with one predicate: its records have the number 0."""

    predicate: Callable[[Any, Any], object]
    default: int
    _looked: bool = attrs.field(default=False, init=False)

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the predicate fails."""
        answers: Iterator[Any] = map(self.predicate, batch.keys, batch.values)
        if not self._looked or len(batch) > LARGE:
            answers = looked_at(answers, refuse_answer)
        others: Iterable[int] = map(not_, answers)
        if self.default != 1:
            others = map((0, self.default).__getitem__, others)
        out = _numbered(batch, others)
        self._looked = True
        return out


def _numbered(batch: Batch, numbers: Iterable[int]) -> Batch:
    """The records that have a branch, with its number in the column ``olds``."""
    found, error = collect(numbers, len(batch))
    done = first_of(batch, len(found))
    out = done.with_values(done.values, found)
    if NO_BRANCH in found:
        out = out.select([number != NO_BRANCH for number in found])
    return finished(out, error, len(found))


@attrs.frozen
class TakeBranch:
    """Takes the records of one branch."""

    number: int

    def process(self, batch: Batch) -> Batch:
        """The records that have the number; the column of numbers ends here."""
        assert batch.olds is not None
        mask = list(map(eq, batch.olds, repeat(self.number)))
        part = batch if all(mask) else batch.select(mask)
        return part.with_values(part.values)
