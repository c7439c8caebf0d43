"""Aggregates as values: ``count()``, ``sum_(…)``, ``mean(…)``, ``max_(…)``, … of an expression.

    grouped.aggregate(sl.sum_(sl.col("dep_delay")))
    grouped.aggregate({"flights": sl.count(), "worst": sl.max_(sl.col("dep_delay"))})

Nulls do not count, as in SQL; but the sum of none is 0, and where there is no smallest, largest,
first or last one yet, and no mean, there is no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import GenericAlias
from typing import Any, Literal

import attrs

from streamlet.dsl.expressions import Expression, compiled, type_of
from streamlet.dsl.inference import UNKNOWN


@attrs.frozen(eq=False)
class Aggregation:
    """One result per key."""

    kind: Literal["count", "sum", "mean", "min", "max", "first", "last", "collect", "distinct"]
    of: Expression | None = None

    def type_of(self, key_type: Any, value_type: Any) -> Any:
        """The type of the result, or ``UNKNOWN``."""
        if self.of is None:
            return int
        of = type_of(self.of, key_type, value_type)
        if self.kind == "mean":
            return float
        if self.kind in ("collect", "distinct"):
            return list if of is UNKNOWN else GenericAlias(list, (of,))
        return of

    def kept_type(self, key_type: Any, value_type: Any) -> Any:
        """The type of what the store keeps of it, or ``UNKNOWN``."""
        return list if self.kind == "mean" else self.type_of(key_type, value_type)


def count() -> Aggregation:
    """Number of records."""
    return Aggregation("count")


def sum_(of: Expression) -> Aggregation:
    """Sum of what is not None; 0 where nothing is."""
    return Aggregation("sum", of)


def mean(of: Expression) -> Aggregation:
    """Arithmetic mean of what is not None, a float.

    The store keeps the sum and the number, as a list.
    """
    return Aggregation("mean", of)


def min_(of: Expression) -> Aggregation:
    """Smallest of what is not None."""
    return Aggregation("min", of)


def max_(of: Expression) -> Aggregation:
    """Largest of what is not None."""
    return Aggregation("max", of)


def first(of: Expression) -> Aggregation:
    """The first that came and is not None."""
    return Aggregation("first", of)


def last(of: Expression) -> Aggregation:
    """The last that came and is not None."""
    return Aggregation("last", of)


def collect(of: Expression) -> Aggregation:
    """List of all that is not None, as it came. A row grows with each record."""
    return Aggregation("collect", of)


def distinct(of: Expression) -> Aggregation:
    """List of the different ones that are not None, as each came first."""
    return Aggregation("distinct", of)


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
    """Initializer, aggregator, and the type of what they make, ``UNKNOWN`` where it is not known.

    What they make is the result already, unless ``finishing`` says otherwise.
    """
    if isinstance(wanted, Aggregation):
        begin, step = _one(wanted, key_type, value_type)
        _mark(step, wanted, key_type, value_type)
        return begin, step, wanted.kept_type(key_type, value_type)
    parts = [(name, *_one(one, key_type, value_type)) for name, one in wanted.items()]
    begins = [(name, begin) for name, begin, _ in parts]
    steps = [(name, step) for name, _, step in parts]

    def together(key: Any, value: Any, so_far: dict[str, Any]) -> dict[str, Any]:
        return {name: step(key, value, so_far[name]) for name, step in steps}

    _mark(together, wanted, key_type, value_type)
    return lambda: {name: begin() for name, begin in begins}, together, dict


def _mark(aggregator: Any, wanted: Aggregations, key_type: Any, value_type: Any) -> None:
    aggregator.made_of = MadeOf(wanted, key_type, value_type)


def _one(wanted: Aggregation, key_type: Any, value_type: Any) -> tuple[Initializer, Aggregator]:
    if wanted.of is None:
        return lambda: 0, lambda _key, _value, so_far: so_far + 1
    of = compiled(wanted.of, value_type)
    if wanted.kind == "sum":
        zero = 0.0 if wanted.type_of(key_type, value_type) is float else 0
        return (
            lambda: zero,
            lambda key, value, so_far: so_far if (new := of(key, value)) is None else so_far + new,
        )
    if wanted.kind in ("min", "max"):
        return lambda: None, _best(of, least=wanted.kind == "min")
    begin, add = _RULES[wanted.kind]

    def step(key: Any, value: Any, so_far: Any) -> Any:
        new = of(key, value)
        return so_far if new is None else add(so_far, new)

    return begin, step


def _best(of: Callable[[Any, Any], Any], *, least: bool) -> Aggregator:
    def better(key: Any, value: Any, so_far: Any) -> Any:
        new = of(key, value)
        if new is None or so_far is None:
            return so_far if new is None else new
        return new if (new < so_far if least else new > so_far) else so_far

    return better


def _collected(so_far: list[Any], new: Any) -> list[Any]:
    so_far.append(new)
    return so_far


def _distinct(so_far: list[Any], new: Any) -> list[Any]:
    if new not in so_far:
        so_far.append(new)
    return so_far


#: What a row begins with, and how a value comes to it. The row is the aggregator's own to change.
_RULES: Mapping[str, tuple[Initializer, Callable[[Any, Any], Any]]] = {
    "mean": (lambda: [0, 0], lambda so_far, new: [so_far[0] + new, so_far[1] + 1]),
    "first": (lambda: None, lambda so_far, new: new if so_far is None else so_far),
    "last": (lambda: None, lambda so_far, new: new),
    "collect": (list, _collected),
    "distinct": (list, _distinct),
}


def merging(wanted: Aggregations) -> Callable[[Any, Any, Any], Any]:
    """``(key, kept, kept) -> kept``: what the records of both would have given, the first first."""
    if isinstance(wanted, Aggregation):
        merge = _MERGES[wanted.kind]
        return lambda _key, one, other: merge(one, other)
    parts = {name: merging(one) for name, one in wanted.items()}
    return lambda key, one, other: {
        name: merge(key, one[name], other[name]) for name, merge in parts.items()
    }


def _of_both(better: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: better((v for v in (one, other) if v is not None), default=None)


_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    "count": lambda one, other: one + other,
    "sum": lambda one, other: one + other,
    "mean": lambda one, other: [one[0] + other[0], one[1] + other[1]],
    "min": _of_both(min),
    "max": _of_both(max),
    "first": lambda one, other: other if one is None else one,
    "last": lambda one, other: one if other is None else other,
    "collect": lambda one, other: [*one, *other],
    "distinct": lambda one, other: [*one, *(value for value in other if value not in one)],
}


def finishing(wanted: Aggregations) -> Callable[[Any], Any] | None:
    """``(kept) -> result``; None where what is kept is the result."""
    if isinstance(wanted, Aggregation):
        return _mean if wanted.kind == "mean" else None
    means = [name for name, one in wanted.items() if one.kind == "mean"]
    if not means:
        return None
    return lambda kept: {**kept, **{name: _mean(kept[name]) for name in means}}


def _mean(kept: list[Any]) -> float | None:
    total, number = kept
    return None if not number else total / number


def result_type(wanted: Aggregations, key_type: Any, value_type: Any) -> Any:
    """The type of a result, or ``UNKNOWN``."""
    return wanted.type_of(key_type, value_type) if isinstance(wanted, Aggregation) else dict


def is_aggregations(given: object) -> bool:
    """True if ``aggregate`` was given these and not an initializer."""
    return isinstance(given, Aggregation) or (
        isinstance(given, Mapping)
        and bool(given)
        and all(isinstance(one, Aggregation) for one in given.values())
    )
