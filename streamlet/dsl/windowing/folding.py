"""Folds: how an aggregation of windows makes a value of records, and of two values one.

The objects belong to whom ``folds.stream_folds`` says: a fold gives user functions a copy of what
is stored, and stores a copy of what they return.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.dsl.folds.none_results import noticed
from streamlet.dsl.operators.hot_store import keeper, reader
from streamlet.serdes import Serde

Function = Callable[..., Any]
#: ``(key, value, aggregate) -> aggregate``.
Step = Callable[[Any, Any, Any], Any]


@attrs.frozen
class Folding:
    """The functions of an aggregation.

    ``first()`` is what a window begins with, ``step`` adds a record, ``merge(key, one, other)``
    makes one value of two sessions'. ``counts`` is true for a plain count, which has a quicker way.
    """

    first: Callable[[], Any]
    step: Step
    merge: Function | None = None
    counts: bool = False


def counting() -> Folding:
    """Number of records; those without a value count too."""
    return Folding(
        lambda: 0, lambda _key, _value, count: count + 1, lambda _key, a, b: a + b, counts=True
    )


def reducing(reducer: Function) -> Folding:
    """``reducer(aggregate, value)``, beginning with the first value as it is."""

    def step(_key: Any, value: Any, so_far: Any) -> Any:
        return value if so_far is None else reducer(so_far, value)

    return Folding(lambda: None, step, step_of_sessions(step))


def noticed_folding(folding: Folding, value: Serde[Any] | None) -> Folding:
    """A folding with its functions watched for None, see ``none_results``."""
    step, merge = folding.step, folding.merge
    if hasattr(step, "made_of"):
        return folding
    merged = None if merge is None else noticed(merge, value, 1)
    return attrs.evolve(folding, step=noticed(step, value, 2), merge=merged)


def step_of_sessions(step: Step) -> Function:
    """Merges by adding the later value as if it were a record's."""
    return lambda key, so_far, later: step(key, later, so_far)


@attrs.frozen
class BoundFolding:
    """A folding with what the store's values need.

    ``keep`` checks and copies what is stored, ``read`` copies it for functions; None: it cannot
    change.
    """

    of: Folding
    keep: Callable[[Any], Any]
    read: Callable[[Any], Any] | None

    @classmethod
    def bind(cls, of: Folding, value: Serde[Any]) -> BoundFolding:
        """For values of a serde."""
        return cls(of, keeper(value, "result"), reader(value))

    def first(self) -> Any:
        """The initial value of a window, which the aggregator may change."""
        first, read = self.of.first(), self.read
        return read(first) if read else first

    def add(self, key: Any, value: Any, stored: Any) -> Any:
        """The value to store when a record comes to ``stored``, which stays as it is."""
        read = self.read
        return self.add_own(key, value, read(stored) if read else stored)

    def add_own(self, key: Any, value: Any, so_far: Any) -> Any:
        """The value to store when a record comes to ``so_far``, which the aggregator may change."""
        return self.keep(self.of.step(key, value, so_far))

    def merged(self, key: Any, one: Any, stored: Any) -> Any:
        """The value of two sessions; ``stored`` stays as it is."""
        merge, read = self.of.merge, self.read
        assert merge is not None
        return merge(key, one, read(stored) if read else stored)
