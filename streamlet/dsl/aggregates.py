"""Aggregates as values: ``count()``, ``sum_(…)``, ``min_(…)``, ``max_(…)`` of an expression.

    grouped.aggregate(sl.sum_(sl.col("dep_delay")))
    grouped.aggregate({"flights": sl.count(), "worst": sl.max_(sl.col("dep_delay"))})

Nulls do not count, as in SQL; but the sum of none is 0, and where there is no smallest or largest
yet, there is no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

from streamlet.dsl.expressions import Expression, compiled, type_of


@attrs.frozen(eq=False)
class Aggregation:
    """One number, or smallest or largest value, per key."""

    kind: Literal["count", "sum", "min", "max"]
    of: Expression | None = None

    def type_of(self, key_type: Any, value_type: Any) -> Any:
        """The type of the result, or ``UNKNOWN``."""
        return int if self.of is None else type_of(self.of, key_type, value_type)


def count() -> Aggregation:
    """Number of records."""
    return Aggregation("count")


def sum_(of: Expression) -> Aggregation:
    """Sum of what is not None; 0 where nothing is."""
    return Aggregation("sum", of)


def min_(of: Expression) -> Aggregation:
    """Smallest of what is not None."""
    return Aggregation("min", of)


def max_(of: Expression) -> Aggregation:
    """Largest of what is not None."""
    return Aggregation("max", of)


@attrs.frozen(eq=False)
class MadeOf:
    """The parts of an aggregator, which carries them as ``made_of``."""

    wanted: Aggregations
    key_type: Any
    value_type: Any


#: What ``aggregate`` takes in place of an initializer and an aggregator.
Aggregations = Aggregation | Mapping[str, Aggregation]

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]


def functions(
    wanted: Aggregations, key_type: Any, value_type: Any
) -> tuple[Initializer, Aggregator, Any]:
    """Initializer, aggregator, and the type of the result, ``UNKNOWN`` where it is not known."""
    if isinstance(wanted, Aggregation):
        first, step = _one(wanted, key_type, value_type)
        _mark(step, wanted, key_type, value_type)
        return lambda: first, step, wanted.type_of(key_type, value_type)
    parts = [(name, *_one(one, key_type, value_type)) for name, one in wanted.items()]
    begin = {name: first for name, first, _ in parts}
    steps = [(name, step) for name, _, step in parts]

    def together(key: Any, value: Any, so_far: dict[str, Any]) -> dict[str, Any]:
        return {name: step(key, value, so_far[name]) for name, step in steps}

    _mark(together, wanted, key_type, value_type)
    return lambda: dict(begin), together, dict


def _mark(aggregator: Any, wanted: Aggregations, key_type: Any, value_type: Any) -> None:
    aggregator.made_of = MadeOf(wanted, key_type, value_type)


def _one(wanted: Aggregation, key_type: Any, value_type: Any) -> tuple[Any, Aggregator]:
    if wanted.of is None:
        return 0, lambda _key, _value, so_far: so_far + 1
    of = compiled(wanted.of, value_type)
    if wanted.kind == "sum":
        zero = 0.0 if wanted.type_of(key_type, value_type) is float else 0
        return (
            zero,
            lambda key, value, so_far: so_far if (new := of(key, value)) is None else so_far + new,
        )
    least = wanted.kind == "min"

    def better(key: Any, value: Any, so_far: Any) -> Any:
        new = of(key, value)
        if new is None or so_far is None:
            return so_far if new is None else new
        return new if (new < so_far if least else new > so_far) else so_far

    return None, better


def merging(wanted: Aggregations) -> Callable[[Any, Any, Any], Any]:
    """``(key, result, result) -> result``: what the records of both would have given."""
    if isinstance(wanted, Aggregation):
        kind = wanted.kind
        if kind in ("count", "sum"):
            return lambda _key, one, other: one + other
        better = min if kind == "min" else max

        def best(_key: Any, one: Any, other: Any) -> Any:
            return better((v for v in (one, other) if v is not None), default=None)

        return best
    parts = {name: merging(one) for name, one in wanted.items()}
    return lambda key, one, other: {
        name: merge(key, one[name], other[name]) for name, merge in parts.items()
    }


def is_aggregations(given: object) -> bool:
    """True if ``aggregate`` was given these and not an initializer."""
    return isinstance(given, Aggregation) or (
        isinstance(given, Mapping)
        and bool(given)
        and all(isinstance(one, Aggregation) for one in given.values())
    )
